// Between a vector of several fields and that of one of them, whose entries stand at the places of a map.

// part = whole[map], and with `d_minus` the difference of two vectors of all fields
__kernel void take_field(const int n, __global const int *restrict d_map, __global const double *d_minus,
                         __global const double *restrict d_whole, __global double *restrict d_part) {
  FOR_EACH(i, n) d_part[i] = d_whole[d_map[i]] - (d_minus ? d_minus[d_map[i]] : 0.0);
}

// whole[map] = part
__kernel void put_field(const int n, __global const int *restrict d_map, __global const double *restrict d_part,
                        __global double *restrict d_whole) {
  FOR_EACH(i, n) d_whole[d_map[i]] = d_part[i];
}

// whole[map] = given[map] / diagonal; where that is zero, zero
__kernel void divide_field(const int n, __global const int *restrict d_map, __global const double *restrict d_diagonal,
                           __global const double *restrict d_given, __global double *restrict d_whole) {
  FOR_EACH(i, n) d_whole[d_map[i]] = d_diagonal[i] == 0.0 ? 0.0 : d_given[d_map[i]] / d_diagonal[i];
}
