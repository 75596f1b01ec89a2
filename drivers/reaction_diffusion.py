"""Two species that diffuse and react, and the patterns that they form.

Strong form, on any mesh:

    du/dt - div(D_u grad u) = R_u(u, v) + f_u
    dv/dt - div(D_v grad v) = R_v(u, v) + f_v

Weak form: find u(t), v(t) such that for all test functions p, q

    int (du/dt p + D_u grad u . grad p - (R_u + f_u) p) dx + int (dv/dt q + D_v grad v . grad q - (R_v + f_v) q) dx = 0

-model <schnakenberg>   reactions, with -parameters <a,b> and -diffusion <D_u,D_v> (defaults in brackets):

    schnakenberg    R_u = a - u + u^2 v, R_v = b - u^2 v               [0.1, 0.9]      [5e-4, 1e-2]
    brusselator     R_u = a - (b + 1) u + u^2 v, R_v = b u - u^2 v     [4.5, 8]        [2e-3, 1.6e-2]
    gray_scott      R_u = a (1 - u) - u v^2, R_v = u v^2 - (a + b) v   [0.037, 0.06]   [8e-5, 4e-5]

-solution pattern       f = 0 and no flux through the boundary, on meshes of size 1; from the steady state without pattern, but
                        disturbed (gray_scott: u = 1, v = 0 with a blob of another state in the middle). Prints the range of both
          manufactured  u = 1 + cos(t) prod_i cos(pi s_i) / 4 and v = 1 + sin(t + 1) prod_i sin(pi s_i + 0.3) / 4, s_i from 0 to 1
                        over the mesh's bounding box; f from UFL, both species given on the whole boundary. Prints the L2 errors

-series, -series_every, -checkpoint, -checkpoint_every, -restart: files of a run in time, see drivers/heat.py

Patterns take until t = 100 (schnakenberg), 10 (brusselator) or 5000 (gray_scott), in 200 steps; the manufactured solution runs
to t = 1 in 50 steps; unless -ts_max_time and -ts_time_step say otherwise. Fields are called u and v: -pc_type fieldsplit with
-fieldsplit_u_pc_type and -fieldsplit_v_pc_type solves for them apart.

Run lines:

    python drivers/reaction_diffusion.py -dm_plex_simplex 0 -dm_plex_box_faces 24,24 -pc_type lu -ts_adapt_type basic \
        -ts_time_step 0.1 -ts_monitor -series pattern.pvd -series_every 20
    python drivers/reaction_diffusion.py -dm_plex_box_faces 8,8 -petscspace_degree 2 -solution manufactured -ts_type cn -pc_type lu
    python drivers/reaction_diffusion.py -dm_plex_dim 3 -dm_plex_box_faces 4,4,4 -solution manufactured -model brusselator \
        -pc_type fieldsplit -fieldsplit_u_pc_type gamg -fieldsplit_v_pc_type gamg -ts_time_step 0.1
    python drivers/reaction_diffusion.py -dm_plex_dim 3 -dm_plex_simplex 0 -dm_plex_box_faces 6,6,6 -model brusselator \
        -pc_type bjacobi -ts_max_time 1
    mpiexec -n 2 python drivers/reaction_diffusion.py -dm_plex_box_faces 24,24 -petscspace_degree 2 -model gray_scott \
        -pc_type bjacobi -ts_max_time 100 -ts_time_step 10 -checkpoint gray_scott.h5
"""

import math

import common
import ufl
from petsc4py import PETSc
from ufl import div, grad, inner

import femgpu

# Reactions, their parameters, diffusion, and how long a pattern takes.
MODELS = {
    "schnakenberg": (lambda u, v, a, b: (a - u + u**2 * v, b - u**2 * v), [0.1, 0.9], [5e-4, 1e-2], 100.0),
    "brusselator": (lambda u, v, a, b: (a - (b + 1) * u + u**2 * v, b * u - u**2 * v), [4.5, 8.0], [2e-3, 1.6e-2], 10.0),
    "gray_scott": (lambda u, v, a, b: (a * (1 - u) - u * v**2, u * v**2 - (a + b) * v), [0.037, 0.06], [8e-5, 4e-5], 5000.0),
}
# What is left without pattern.
STEADY = {
    "schnakenberg": lambda a, b: (a + b, b / (a + b) ** 2),
    "brusselator": lambda a, b: (a, b / a),
    "gray_scott": lambda a, b: (1.0, 0.0),
}
SOLUTIONS = ("pattern", "manufactured")
NAMES = ("u", "v")


def main():
    """Runs the driver with the options of the command line."""
    options = PETSc.Options()
    model = common.choice(options, "model", tuple(MODELS), "schnakenberg")
    solution = common.choice(options, "solution", SOLUTIONS, "pattern")
    parameters = common.numbers(options, "parameters", MODELS[model][1])
    diffusion = common.numbers(options, "diffusion", MODELS[model][2])
    degree = common.number(options, "petscspace_degree", 1)

    problem, exact = discretise(femgpu.mesh.create(), degree, model, solution, parameters, diffusion)
    if exact is None:
        end = MODELS[model][3]
        common.integrate(problem, options, end, end / 200)
    else:
        common.integrate(problem, options, 1.0, 0.02)
    w = problem.u
    for i, name in enumerate(NAMES):
        if exact is None:
            lowest, highest = extremes(w, name)
            common.say(f"{name} from {lowest:.6f} to {highest:.6f}")
        else:
            common.say(f"L2 error of {name}: {error(w, exact, i):.6e} ({w.space.num_dofs} dofs, degree {degree})")


def discretise(dm, degree, model="schnakenberg", solution="manufactured", parameters=None, diffusion=None):
    """The problem at t = 0, and its exact solution where there is one.

    Args:
        dm: the mesh.
        degree: of both species.
        model: one of `MODELS`.
        solution: one of `SOLUTIONS`.
        parameters: of the model; default the model's.
        diffusion: of both species; default the model's.
    """
    reactions, usual_parameters, usual_diffusion, _ = MODELS[model]
    parameters, diffusion = parameters or usual_parameters, diffusion or usual_diffusion
    space = femgpu.FunctionSpace(dm, "Lagrange", degree)
    species = femgpu.MixedSpace(dict.fromkeys(NAMES, space))
    w, tests = femgpu.Function(species, name="w"), ufl.split(ufl.TestFunction(species))
    t = femgpu.Constant(dm, 0.0)
    constants = [femgpu.Constant(dm, value) for value in parameters]
    spread = [femgpu.Constant(dm, value) for value in diffusion]

    parts, rates = ufl.split(w), ufl.split(femgpu.time_derivative(w))
    F, dx = 0, common.measure(degree)
    for part, rate, test, k, reaction in zip(parts, rates, tests, spread, reactions(*parts, *constants), strict=True):
        F += (rate * test + k * inner(grad(part), grad(test)) - reaction * test) * dx
    if solution == "pattern":
        disturb(w, model, STEADY[model](*parameters))
        return femgpu.TimeProblem(F, w, t=t), None

    exact, rates = zip(*(common.with_rate(t, function) for function in waves(dm)), strict=True)
    for one, rate, test, k, reaction in zip(exact, rates, tests, spread, reactions(*exact, *constants), strict=True):
        F -= (rate - div(k * grad(one)) - reaction) * test * dx
    bcs = []
    for name, value in zip(NAMES, exact, strict=True):
        w.sub(name).interpolate(value)
        bcs.append(femgpu.DirichletBC(species.sub(name), value, "boundary"))
    return femgpu.TimeProblem(F, w, bcs, t), exact


def waves(dm):
    """The manufactured solution: two functions of time."""
    s = common.relative(dm)
    first, second = math.prod(ufl.cos(math.pi * r) for r in s), math.prod(ufl.sin(math.pi * r + 0.3) for r in s)
    return lambda t: 1 + 0.25 * ufl.cos(t) * first, lambda t: 1 + 0.25 * ufl.sin(t + 1) * second


def disturb(w, model, steady):
    """Sets the initial values of a pattern."""
    centred = [s - 0.5 for s in common.relative(w.space.dm)]
    bump, other = (ufl.exp(-100 * sum((s - shift) ** 2 for s in centred)) for shift in (0.0, 0.2))
    for name, level, sign in zip(NAMES, steady, (-1, 1), strict=True):
        if model == "gray_scott":
            w.sub(name).interpolate(level + (0.5 if sign < 0 else 0.25) * sign * bump)
        else:
            w.sub(name).interpolate(level + 0.1 * sign * (bump - 0.5 * other))


def error(w, exact, i):
    """The L2 error of species i."""
    return femgpu.error_norm(w.sub(NAMES[i]), exact[i])


def extremes(w, name):
    """Lowest and highest nodal value of a species over all ranks."""
    values = w.sub(name).collapse().vec
    return values.min()[1], values.max()[1]


if __name__ == "__main__":
    common.run(main)
