"""Hyperelasticity: a compressible neo-Hookean solid under loads that are applied in steps.

Strong form, on any mesh, for a displacement u with F = I + grad u and J = det F, in the undeformed configuration:

    -div(P(u)) = t f,   P = mu (F - F^-T) + lambda ln(J) F^-T

with u prescribed on a part of the boundary, P(u) n = t q on the part `loaded`, and no forces on the rest. P is the derivative of
the energy density mu/2 (F : F - dim) - mu ln(J) + lambda/2 ln(J)^2. Weak form: find u with its boundary values and, for all v that
vanish where u is prescribed,

    int P(u) : grad v dx - int t f . v dx - int_loaded t q . v ds = 0

The load factor t goes from 0 to 1 in -load_steps steps. It is a kernel argument, so that nothing is rebuilt on the way; each step
starts from the solution before it, extrapolated.

-load manufactured   u_i = t a_i prod_j sin(pi s_j), s_j from 0 to 1 over the mesh's bounding box, a_i from a tenth of its smallest
                     side; prescribed on the whole boundary. The body force that belongs to it follows from UFL
      forces         u = 0 on -clamped, f = -force, q = -traction (per undeformed area) on -loaded
      displacement   u = 0 on -clamped, u = t d with d = -displacement on -loaded

-mu <1.0>, -lambda <2.0>      Lame's parameters at small strains
-load_steps <1>
-clamped <1>, -loaded <2>     regions: values of Face Sets, or names, such as those of gmsh's physical groups
-force <0,0,0>, -traction <0,0,-0.01>, -displacement <0,0,0.1>   as many numbers as the mesh has dimensions

Run lines:

    python drivers/hyperelasticity.py -dm_plex_box_faces 12,12 -petscspace_degree 2 -snes_monitor -pc_type lu
    python drivers/hyperelasticity.py -dm_plex_simplex 0 -dm_plex_box_faces 24,4 -dm_plex_box_upper 6,1 \
        -load displacement -clamped 4 -loaded 2 -displacement 2,-2 -load_steps 4 -petscspace_degree 2 -pc_type lu \
        -picture hyperelasticity.png
    python drivers/hyperelasticity.py -dm_plex_dim 3 -dm_plex_box_faces 3,3,3 -petscspace_degree 2 -ksp_type cg \
        -pc_type gamg -snes_monitor
    python drivers/hyperelasticity.py -dm_plex_dim 3 -dm_plex_simplex 0 -dm_plex_box_faces 4,4,4 -ksp_type cg \
        -pc_type gamg -snes_monitor
    mpiexec -n 2 python drivers/hyperelasticity.py -dm_plex_filename meshes/bracket.msh -load forces -traction 0,0,-2e3 \
        -mu 1e6 -lambda 2e6 -load_steps 2 -snes_linesearch_type cp -femgpu_jacobian assembled -ksp_type cg -pc_type gamg \
        -snes_monitor -output hyperelasticity.vtu
"""

import math

import common
import ufl
from petsc4py import PETSc
from ufl import Identity, det, div, ds, grad, inner, inv, ln

import femgpu

LOADS = ("manufactured", "forces", "displacement")


def main():
    """Runs the driver with the options of the command line."""
    options = PETSc.Options()
    common.check_outputs(options)
    load = common.choice(options, "load", LOADS, "manufactured")
    steps = common.number(options, "load_steps", 1, minimum=1)
    degree = common.number(options, "petscspace_degree", 1)
    material = common.number(options, "mu", 1.0), common.number(options, "lambda", 2.0)

    dm = femgpu.mesh.create()
    zeros, exact = [0.0] * (dm.getDimension() - 1), None
    regions = common.region(options, "clamped", 1), common.region(options, "loaded", 2)
    if load == "manufactured":
        problem, t, exact = discretise(dm, degree, material)
    elif load == "forces":
        forces = common.numbers(options, "force", [*zeros, 0.0]), common.numbers(options, "traction", [*zeros, -0.01])
        problem, t = push(dm, degree, material, *regions, *forces)
    else:
        problem, t = pull(dm, degree, material, *regions, common.numbers(options, "displacement", [*zeros, 0.1]))
    problem.set_near_nullspace(femgpu.rigid_body_modes(problem.u.space))
    error = common.error_norm(problem, exact)
    solve(problem, t, load_factors(load, steps), common.say)
    common.report(problem, error)
    common.say(f"Largest displacement: {common.largest(problem.u):.6e}")
    common.write(options, problem.u)


def stress(u, mu, lam):
    """The first Piola-Kirchhoff stress of a displacement."""
    F = Identity(len(u)) + grad(u)
    return mu * (F - inv(F).T) + lam * ln(det(F)) * inv(F).T


def internal_forces(dm, degree, material):
    """The unknown, its test function, the stress as a function of a displacement, and the form of the internal forces."""
    space = femgpu.FunctionSpace(dm, "Lagrange", degree, shape=(dm.getDimension(),))
    u, v = femgpu.Function(space, name="displacement"), ufl.TestFunction(space)
    mu, lam = (femgpu.Constant(dm, value) for value in material)
    return u, v, lambda w: stress(w, mu, lam), inner(stress(u, mu, lam), grad(v)) * common.measure(degree)


def discretise(dm, degree, material):
    """The problem with an exact solution, its load factor as a Constant, and that solution."""
    u, v, stress_of, F = internal_forces(dm, degree, material)
    t = femgpu.Constant(dm, 1.0)
    lower, upper = common.bounding_box(dm)
    size = 0.1 * float((upper - lower).min())
    shape = math.prod(ufl.sin(math.pi * s) for s in common.relative(dm))
    exact = t * ufl.as_vector([size / (i + 1) * shape for i in range(dm.getDimension())])
    f = -div(stress_of(exact))
    bc = femgpu.DirichletBC(u.space, exact, "boundary")
    return femgpu.NonlinearProblem(F - inner(f, v) * common.measure(degree), u, bcs=[bc]), t, exact


def push(dm, degree, material, clamped, loaded, force, traction):
    """The problem of a part under forces, and its load factor."""
    u, v, _, F = internal_forces(dm, degree, material)
    t, f, q = (femgpu.Constant(dm, value) for value in (1.0, force, traction))
    F = F - t * inner(f, v) * common.measure(degree) - t * inner(q, v) * ds(loaded)
    return femgpu.NonlinearProblem(F, u, bcs=[femgpu.DirichletBC(u.space, 0.0, clamped)]), t


def pull(dm, degree, material, clamped, loaded, displacement):
    """The problem of a part whose boundary is moved, and its load factor."""
    u, _, _, F = internal_forces(dm, degree, material)
    t, d = femgpu.Constant(dm, 1.0), femgpu.Constant(dm, displacement)
    bcs = [femgpu.DirichletBC(u.space, 0.0, clamped), femgpu.DirichletBC(u.space, t * d, loaded)]
    return femgpu.NonlinearProblem(F, u, bcs=bcs), t


def load_factors(load, steps):
    """The load factors of all solves. A boundary that moves at once inverts the cells at it: a small first step comes before."""
    factors = [step / steps for step in range(1, steps + 1)]
    return [1e-3 * factors[0], *factors] if load == "displacement" else factors


def solve(problem, t, factors, say=lambda text: None):
    """Applies the load in steps; the displacement of a step, scaled to the next load, starts the next step."""
    for factor in factors:
        problem.u.vec.scale(factor / t.value)
        t.value = factor
        problem.solve()
        say(f"Load factor {factor:.4g}: {problem.snes.getIterationNumber()} Newton iterations")


if __name__ == "__main__":
    common.run(main)
