"""Stokes' equations with Taylor-Hood elements: the flow in a box whose lid moves, and a manufactured flow.

Strong form, on any mesh, with the velocity u prescribed on the whole boundary:

    -nu div(grad u) + grad p = f
    div u = 0

Weak form: find u with its boundary values and p such that for all v that vanish on the boundary and all q

    int nu grad u : grad v dx - int p div v dx - int q div u dx - int f . v dx = 0

The signs make the Jacobian symmetric. Velocities are of degree -petscspace_degree, at least 2, pressures of one degree less, both
continuous. The pressure is determined up to a constant: the Jacobian's null space is known to the solver, which finds the pressure
whose nodal values sum to zero.

-solution manufactured   u = (sin X cos Y, -cos X sin Y) cos Z with X_i = pi (x_i - lower_i) / L + 0.3, L the longest side of the
                         mesh's bounding box, and no third component; p = nu cos(X + Y). f follows from UFL
          cavity         f = 0, u = (1, 0) on the highest side of the bounding box (where the last coordinate is largest), 0 on the
                         other sides. At the corners the lid's velocity rules
-viscosity <1.0>         nu

A preconditioner by blocks, for -pc_type fieldsplit with the fields velocity and pressure: the Schur complement of the pressure is
spectrally equivalent to the mass matrix of the pressure over -nu, which the driver gives to PETSc for
-pc_fieldsplit_type schur (-pc_fieldsplit_schur_precondition selfp and others of PETSc's remain choices). PETSc's own LU of the whole
matrix fails: it does not pivot, and the matrix is singular.

Run lines:

    python drivers/stokes.py -dm_plex_box_faces 8,8 -ksp_type fgmres -ksp_rtol 1e-8 -ksp_monitor -pc_type fieldsplit \
        -pc_fieldsplit_type schur -pc_fieldsplit_schur_fact_type full -fieldsplit_velocity_pc_type lu \
        -fieldsplit_pressure_ksp_rtol 1e-9 -fieldsplit_pressure_pc_type jacobi
    python drivers/stokes.py -dm_plex_simplex 0 -dm_plex_box_faces 16,16 -solution cavity -ksp_type gmres -ksp_rtol 1e-8 \
        -pc_type fieldsplit -pc_fieldsplit_type schur -pc_fieldsplit_schur_fact_type upper -fieldsplit_velocity_ksp_type preonly \
        -fieldsplit_velocity_pc_type lu -fieldsplit_pressure_ksp_type preonly -fieldsplit_pressure_pc_type ilu -picture stokes.png
"""
