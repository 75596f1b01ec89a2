static char help[] = "A nonlinear PETSc program in C that takes its Jacobian from femgpu.\n\n";
/*
  Strong form    -div(k grad u) = f in the box or mesh, u = exact on its boundary, k = 1 or (-nonlinear) 1 + u^2
  Weak form      int k grad u . grad v - f v dx = 0
  Exact          u = cos(x + y + z)

  The mesh, the element, the boundary conditions and the residual are PETSc's own, on the CPU. The Jacobian is a python Mat of type
  femgpu.FormMatrix: its action runs in OpenCL kernels generated from the form that -femgpu_form names. Where the problem is linear,
  Newton's method must converge in one step, which it does only if the Jacobian is that of PETSc's residual.

    make
    ./poisson -dm_plex_simplex 0 -dm_plex_box_faces 16,16 -petscspace_degree 2 -femgpu_form poisson_form.py:linear -pc_type jacobi
    mpiexec -n 2 ./poisson -dm_plex_simplex 0 -dm_plex_dim 3 -dm_plex_box_faces 6,6,6 -petscspace_degree 2 \
      -femgpu_form poisson_form.py:linear -pc_type python -pc_python_type femgpu.AssembledPC -assembled_pc_type gamg
    ./poisson -dm_plex_filename mesh.msh -petscspace_degree 2 -nonlinear -femgpu_form poisson_form.py:nonlinear -pc_type jacobi
*/
#include <Python.h>
#include <petscdmplex.h>
#include <petscds.h>
#include <petscsnes.h>

/* The interpreter whose packages (petsc4py, femgpu) are used; the Makefile sets it. */
#ifndef FEMGPU_PYTHON
  #define FEMGPU_PYTHON "python3"
#endif

typedef struct {
  PetscBool nonlinear;
} Options;

static PetscErrorCode Exact(PetscInt dim, PetscReal time, const PetscReal x[], PetscInt Nc, PetscScalar *u, void *ctx)
{
  PetscReal s = 0;

  for (PetscInt d = 0; d < dim; ++d) s += x[d];
  u[0] = PetscCosReal(s);
  return PETSC_SUCCESS;
}

#define POINTWISE \
  PetscInt dim, PetscInt Nf, PetscInt NfAux, const PetscInt uOff[], const PetscInt uOff_x[], const PetscScalar u[], \
    const PetscScalar u_t[], const PetscScalar u_x[], const PetscInt aOff[], const PetscInt aOff_x[], const PetscScalar a[], \
    const PetscScalar a_t[], const PetscScalar a_x[], PetscReal t, const PetscReal x[], PetscInt numConstants, \
    const PetscScalar constants[], PetscScalar f[]

static void f0_linear(POINTWISE)
{
  PetscReal s = 0;

  for (PetscInt d = 0; d < dim; ++d) s += x[d];
  f[0] = -dim * PetscCosReal(s);
}

static void f1_linear(POINTWISE)
{
  for (PetscInt d = 0; d < dim; ++d) f[d] = u_x[d];
}

static void f0_nonlinear(POINTWISE)
{
  PetscReal s = 0, c;

  for (PetscInt d = 0; d < dim; ++d) s += x[d];
  c    = PetscCosReal(s);
  f[0] = -dim * c * (1 + c * c - 2 * PetscSqr(PetscSinReal(s)));
}

static void f1_nonlinear(POINTWISE)
{
  for (PetscInt d = 0; d < dim; ++d) f[d] = (1 + u[0] * u[0]) * u_x[d];
}

/* Starts Python where `-python` has not, and registers PETSc's python types. After PetscInitialize: before it, importing petsc4py
   would initialise PETSc itself, without the command line. */
static PetscErrorCode StartPython(void)
{
  PyObject *module;

  PetscFunctionBeginUser;
  if (!Py_IsInitialized()) {
    PyConfig config;
    PyStatus status;

    PyConfig_InitPythonConfig(&config);
    config.install_signal_handlers = 0;
    /* The name of the interpreter leads Python to its virtual environment. */
    status = PyConfig_SetBytesString(&config, &config.program_name, FEMGPU_PYTHON);
    if (!PyStatus_Exception(status)) status = Py_InitializeFromConfig(&config);
    PyConfig_Clear(&config);
    PetscCheck(!PyStatus_Exception(status), PETSC_COMM_SELF, PETSC_ERR_LIB, "Python does not start: %s", status.err_msg);
  }
  module = PyImport_ImportModule("petsc4py.PETSc");
  PetscCheck(module, PETSC_COMM_SELF, PETSC_ERR_LIB, "%s cannot import petsc4py; build with PYTHON=<the interpreter that has femgpu>", FEMGPU_PYTHON);
  Py_DECREF(module);
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* A DMPlex of the options -dm_plex_*, with one PetscFE field and a section that leaves the boundary out of the vectors. */
static PetscErrorCode CreateDiscretisation(Options options, DM *dm)
{
  DMLabel        label;
  DMPolytopeType cell;
  PetscDS        ds;
  PetscFE        fe;
  PetscInt       dim, start, id = 1;
  PetscInt       type = DM_POLYTOPE_UNKNOWN;

  PetscFunctionBeginUser;
  PetscCall(DMCreate(PETSC_COMM_WORLD, dm));
  PetscCall(DMSetType(*dm, DMPLEX));
  PetscCall(DMSetFromOptions(*dm));
  PetscCall(DMViewFromOptions(*dm, NULL, "-dm_view"));
  PetscCall(DMGetDimension(*dm, &dim));
  /* A rank without cells has to learn their type from the others. */
  PetscCall(DMPlexGetHeightStratum(*dm, 0, &start, &type));
  if (type > start) {
    PetscCall(DMPlexGetCellType(*dm, start, &cell));
    type = (PetscInt)cell;
  } else type = -1;
  PetscCallMPI(MPIU_Allreduce(MPI_IN_PLACE, &type, 1, MPIU_INT, MPI_MAX, PETSC_COMM_WORLD));
  PetscCall(PetscFECreateByCell(PETSC_COMM_WORLD, dim, 1, (DMPolytopeType)type, NULL, PETSC_DETERMINE, &fe));
  PetscCall(DMSetField(*dm, 0, NULL, (PetscObject)fe));
  PetscCall(PetscFEDestroy(&fe));
  PetscCall(DMCreateDS(*dm));
  PetscCall(DMGetDS(*dm, &ds));
  if (options.nonlinear) PetscCall(PetscDSSetResidual(ds, 0, f0_nonlinear, f1_nonlinear));
  else PetscCall(PetscDSSetResidual(ds, 0, f0_linear, f1_linear));
  PetscCall(DMCreateLabel(*dm, "boundary"));
  PetscCall(DMGetLabel(*dm, "boundary", &label));
  PetscCall(DMPlexMarkBoundaryFaces(*dm, id, label));
  PetscCall(DMPlexLabelComplete(*dm, label));
  PetscCall(DMAddBoundary(*dm, DM_BC_ESSENTIAL, "wall", label, 1, &id, 0, 0, NULL, (PetscVoidFn *)Exact, NULL, NULL, NULL));
  PetscCall(DMPlexSetSNESLocalFEM(*dm, PETSC_FALSE, NULL));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* The Jacobian of femgpu: all it needs is the DM. */
static PetscErrorCode CreateJacobian(DM dm, Vec u, Mat *J)
{
  PetscInt size;

  PetscFunctionBeginUser;
  PetscCall(VecGetLocalSize(u, &size));
  PetscCall(MatCreate(PETSC_COMM_WORLD, J));
  PetscCall(MatSetSizes(*J, size, size, PETSC_DETERMINE, PETSC_DETERMINE));
  PetscCall(MatSetType(*J, MATPYTHON));
  PetscCall(MatPythonSetType(*J, "femgpu.FormMatrix"));
  PetscCall(MatSetDM(*J, dm));
  PetscCall(MatSetFromOptions(*J));
  PetscCall(MatSetUp(*J));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Tells femgpu where to linearise. */
static PetscErrorCode FormJacobian(SNES snes, Vec x, Mat J, Mat P, void *ctx)
{
  PetscFunctionBeginUser;
  PetscCall(PetscObjectCompose((PetscObject)J, "femgpu_state", (PetscObject)x));
  PetscCall(MatAssemblyBegin(J, MAT_FINAL_ASSEMBLY));
  PetscCall(MatAssemblyEnd(J, MAT_FINAL_ASSEMBLY));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode Report(Options options, SNES snes, DM dm, Vec u)
{
  PetscErrorCode (*exact[1])(PetscInt, PetscReal, const PetscReal[], PetscInt, PetscScalar *, void *) = {Exact};
  SNESConvergedReason reason;
  PetscInt            steps, linear, size;
  PetscReal           error;
  PetscBool           differences, both;

  PetscFunctionBeginUser;
  /* Products by differences of the residual are not exact: with them a linear problem may take a second step. */
  PetscCall(PetscOptionsHasName(NULL, NULL, "-snes_mf", &differences));
  PetscCall(PetscOptionsHasName(NULL, NULL, "-snes_mf_operator", &both));
  PetscCall(SNESGetConvergedReason(snes, &reason));
  PetscCall(SNESGetIterationNumber(snes, &steps));
  PetscCall(SNESGetLinearSolveIterations(snes, &linear));
  PetscCall(DMComputeL2Diff(dm, 0, exact, NULL, u, &error));
  PetscCall(VecGetSize(u, &size));
  PetscCall(PetscPrintf(PETSC_COMM_WORLD, "%" PetscInt_FMT " dofs, %" PetscInt_FMT " Newton steps, %" PetscInt_FMT " linear iterations, %s\n", size, steps, linear, SNESConvergedReasons[reason]));
  PetscCall(PetscPrintf(PETSC_COMM_WORLD, "L2 error %.10e\n", (double)error));
  PetscCheck(reason > 0, PETSC_COMM_WORLD, PETSC_ERR_NOT_CONVERGED, "SNES diverged: %s", SNESConvergedReasons[reason]);
  PetscCheck(options.nonlinear || steps == 1 || differences || both, PETSC_COMM_WORLD, PETSC_ERR_PLIB, "a linear problem took %" PetscInt_FMT " Newton steps: the Jacobian of -femgpu_form is not that of the residual (on distorted or curved cells the quadrature must be the same: -petscfe_default_quadrature_order 2, say)", steps);
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode Solve(void)
{
  Options options = {PETSC_FALSE};
  DM      dm;
  KSP     ksp;
  Mat     J;
  SNES    snes;
  Vec     u;

  PetscFunctionBeginUser;
  PetscCall(PetscOptionsGetBool(NULL, NULL, "-nonlinear", &options.nonlinear, NULL));
  PetscCall(StartPython());
  PetscCall(CreateDiscretisation(options, &dm));
  PetscCall(DMCreateGlobalVector(dm, &u));
  PetscCall(CreateJacobian(dm, u, &J));
  PetscCall(SNESCreate(PETSC_COMM_WORLD, &snes));
  PetscCall(SNESSetDM(snes, dm));
  PetscCall(SNESSetJacobian(snes, J, J, FormJacobian, NULL));
  PetscCall(SNESGetKSP(snes, &ksp));
  PetscCall(KSPSetType(ksp, options.nonlinear ? KSPGMRES : KSPCG));
  PetscCall(KSPSetTolerances(ksp, 1e-12, PETSC_CURRENT, PETSC_CURRENT, PETSC_CURRENT));
  PetscCall(SNESSetFromOptions(snes));
  PetscCall(SNESSolve(snes, NULL, u));
  PetscCall(Report(options, snes, dm, u));
  PetscCall(SNESDestroy(&snes));
  PetscCall(MatDestroy(&J));
  PetscCall(VecDestroy(&u));
  PetscCall(DMDestroy(&dm));
  PetscFunctionReturn(PETSC_SUCCESS);
}

int main(int argc, char **argv)
{
  PetscCall(PetscInitialize(&argc, &argv, NULL, help));
  if (Solve()) {
    /* PETSc has printed its trace; the reason may be a Python exception. */
    if (Py_IsInitialized() && PyErr_Occurred()) PyErr_Print();
    MPI_Abort(PETSC_COMM_WORLD, 1);
  }
  PetscCall(PetscFinalize());
  return Py_IsInitialized() && Py_FinalizeEx() ? 1 : 0;
}
