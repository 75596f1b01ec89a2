## One block of g0 to g5 times the test function's phi and phi_x: what multiplies the direction's value (h0), gradient (h1), Hessian (h2).
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
