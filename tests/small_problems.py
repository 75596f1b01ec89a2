"""Problems that are solved in no time."""

import ufl
from petsc4py import PETSc
from ufl import div, dx, grad, inner

import femgpu
from femgpu import DirichletBC, Function, FunctionSpace, MixedSpace, NonlinearProblem, TimeProblem, mesh

SELF = PETSc.COMM_SELF


def poisson(comm=SELF, degree=1, **arguments):
    dm = mesh.box((3, 2), cell="triangle", comm=comm)
    V = FunctionSpace(dm, "Lagrange", degree)
    u, v = Function(V), ufl.TestFunction(V)
    return NonlinearProblem(inner(grad(u), grad(v)) * dx - v * dx, u, DirichletBC(V, 0.0), **arguments)


def stokes():
    dm = mesh.box((2, 2), cell="triangle", comm=SELF)
    W = MixedSpace({"v": FunctionSpace(dm, "Lagrange", 2, shape=(2,)), "p": FunctionSpace(dm, "Lagrange", 1)})
    w, (v, q) = Function(W), ufl.TestFunctions(W)
    u, p = ufl.split(w)
    F = inner(grad(u), grad(v)) * dx - p * div(v) * dx - q * div(u) * dx
    return NonlinearProblem(F, w, [DirichletBC(W.sub("v"), (0.0, 0.0), (1, 2, 4)), DirichletBC(W.sub("v"), (1.0, 0.0), 3)])


def heat(comm=SELF, prefix=""):
    dm = mesh.box((2, 2), cell="triangle", comm=comm)
    V = FunctionSpace(dm, "Lagrange", 1)
    u, v = Function(V), ufl.TestFunction(V)
    u.vec.set(1.0)
    return TimeProblem(femgpu.time_derivative(u) * v * dx + u**2 * v * dx, u, options_prefix=prefix)
