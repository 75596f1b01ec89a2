## One block of g0 to g8 times the test function's phi, phi_x and phi_xx: what multiplies the direction's value (h0), gradient (h1), Hessian (h2).
% if trial_hessian:
      real h2[DIM * DIM];
      for (int j = 0; j < DIM * DIM; ++j) h2[j] = 0;
% endif
% if "g0" in work.writes:
      h0 += phi * g0[${block}];
% endif
      for (int i = 0; i < DIM; ++i) {
% if "g1" in work.writes:
        h1[i] += phi * g1[${block} * DIM + i];
% endif
% if "g2" in work.writes:
        h0 += phi_x[i] * g2[${block} * DIM + i];
% endif
% if "g3" in work.writes:
        for (int j = 0; j < DIM; ++j) h1[j] += phi_x[i] * g3[(${block} * DIM + i) * DIM + j];
% endif
% if "g5" in work.writes:
        for (int j = 0; j < DIM * DIM; ++j) h2[j] += phi_x[i] * g5[(${block} * DIM + i) * DIM * DIM + j];
% endif
      }
% if "g4" in work.writes:
      for (int j = 0; j < DIM * DIM; ++j) h2[j] += phi * g4[${block} * DIM * DIM + j];
% endif
% if work.writes & {"g6", "g7", "g8"}:
      for (int i = 0; i < DIM * DIM; ++i) {
% if "g6" in work.writes:
        h0 += phi_xx[i] * g6[${block} * DIM * DIM + i];
% endif
% if "g7" in work.writes:
        for (int j = 0; j < DIM; ++j) h1[j] += phi_xx[i] * g7[(${block} * DIM * DIM + i) * DIM + j];
% endif
% if "g8" in work.writes:
        for (int j = 0; j < DIM * DIM; ++j) h2[j] += phi_xx[i] * g8[(${block} * DIM * DIM + i) * DIM * DIM + j];
% endif
      }
% endif
