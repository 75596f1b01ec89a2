// Numbers of components are known where functions stand in place of their calls, and loops over them are unrolled there. Before, PoCL
// warns of each that it cannot.
#pragma clang diagnostic ignored "-Wpass-failed"
// Vectors are arguments only of functions that stand in place of their calls.
#pragma clang diagnostic ignored "-Wpsabi"
