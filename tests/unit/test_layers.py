"""Imports inside femgpu go one way, and each outside library has its place."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2] / "femgpu"

BASE = {"version", "caches", "errors", "forks", "leaving", "options", "log", "petsc_c", "petsc_aij", "petsc_blocks", "petsc_ksp"}
BASE |= {"progress"}
LOWER = BASE | {"element", "mesh", "spaces"}
# What each part may import besides itself.
ALLOWED = {
    "version": set(),
    "caches": set(),
    "errors": {"leaving"},
    "forks": {"errors"},
    "leaving": set(),
    "options": {"errors"},
    "log": {"errors"},
    "petsc_c": {"errors"},
    "petsc_aij": {"petsc_c"},
    "petsc_blocks": {"petsc_c"},
    "petsc_ksp": {"petsc_c"},
    "progress": set(),
    "element": BASE,
    "mesh": BASE | {"element"},
    "spaces": BASE | {"element", "mesh"},
    "forms": LOWER,
    "model": BASE,
    "runtime": BASE | {"model"},
    "kernels": LOWER | {"forms", "model"},
    "tune": BASE | {"model", "kernels", "runtime"},
    "operators": LOWER | {"forms", "model", "kernels", "runtime", "tune"},
    "krylov": BASE | {"kernels", "runtime"},
    "multigrid": BASE | {"kernels", "runtime", "krylov"},
    "solver": LOWER | {"forms", "model", "kernels", "runtime", "tune", "operators", "krylov", "multigrid", "io"},
    "io": LOWER,
}
# The same for the folders of `forms`; records stay below, the package itself above.
FORMS = {"graph": set(), "state": {"graph"}, "ufl": {"graph", "c"}, "c": {"graph", "ufl"}}
# What may import everything, and is imported by its own kind only.
TOP = {"bench", "cli", "doctor", "warmup", "__main__"}
# Where a library may be imported; `bench` states its workloads in UFL.
ONLY_IN = {
    "pyopencl": {"runtime"},
    "ufl": {"spaces", "forms", "bench"},
    "mako": {"kernels"},
}
NEVER_IN = {"petsc4py": {"forms", "model", "kernels", "runtime", "tune", "krylov", "multigrid"}}

# The one circle between modules, by file stem: the walk over an expression and what it does at each node call each other.
CIRCLES = [{"handlers", "walk"}]

MAX_LINES = 300
MODULES = sorted(path for path in ROOT.rglob("*.py") if "__pycache__" not in path.parts)


def part(path: Path) -> str:
    """The folder or module right below femgpu that a file belongs to."""
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def imports(path: Path) -> set[str]:
    """Dotted names of all modules that a file imports anywhere in it, `femgpu.x` for `from femgpu import x`."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(), str(path))):
        if isinstance(node, ast.Import):
            found |= {name.name for name in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are absolute"
            found |= {f"femgpu.{name.name}" for name in node.names} if node.module == "femgpu" else {node.module}
    return found


def names(path: Path) -> str:
    return str(path.relative_to(ROOT.parent))


def dotted(path: Path) -> str:
    """The name of a module, that of a folder for its `__init__`."""
    return ".".join(path.relative_to(ROOT.parent).with_suffix("").parts).removesuffix(".__init__")


def modules_used(path: Path) -> set[str]:
    """Modules of femgpu that a file imports anywhere in it, inside functions and for type checkers too."""
    known, found = {dotted(module) for module in MODULES}, set()
    for node in ast.walk(ast.parse(path.read_text(), str(path))):
        if isinstance(node, ast.Import):
            found |= {name.name for name in node.names}
        elif isinstance(node, ast.ImportFrom):
            members = {f"{node.module}.{name.name}" for name in node.names}
            found |= members | ({node.module} if members - known else set())
    return found & known


def circles(graph: dict[str, set[str]]) -> set[frozenset[str]]:
    """The groups of modules that all lead to each other."""
    reach = {}
    for start in graph:
        todo, seen = list(graph[start]), set()
        while todo:
            name = todo.pop()
            if name not in seen:
                seen.add(name)
                todo += graph[name]
        reach[start] = seen
    return {frozenset(other for other in reach[name] if name in reach[other]) for name in graph if name in reach[name]}


def test_every_part_has_a_rule():
    assert {part(path) for path in MODULES} <= {"__init__", *ALLOWED, *TOP}


@pytest.mark.parametrize("path", [path for path in MODULES if part(path) != "__init__"], ids=names)
def test_imports_go_one_way(path):
    mine = part(path)
    others = {name.split(".")[1] for name in imports(path) if name.startswith("femgpu.")} - {mine}
    assert "femgpu" not in imports(path), "import the module that is meant, not the public names"
    assert mine in TOP or others <= ALLOWED[mine], f"{mine} imports {others - ALLOWED[mine]}"


@pytest.mark.parametrize("folder", FORMS)
def test_imports_inside_forms_go_one_way(folder):
    for path in (ROOT / "forms" / folder).glob("*.py"):
        others = {name.split(".")[2] for name in imports(path) if name.startswith("femgpu.forms.")} - {folder, "records"}
        assert others <= FORMS[folder], f"{names(path)} imports {others - FORMS[folder]}"


@pytest.mark.parametrize("path", MODULES, ids=names)
def test_libraries_stay_in_their_places(path):
    mine, used = part(path), {name.split(".")[0] for name in imports(path)}
    for library, places in ONLY_IN.items():
        assert library not in used or mine in places, f"{library} belongs into {', '.join(sorted(places))}"
    for library, places in NEVER_IN.items():
        assert library not in used or mine not in places, f"{library} does not belong into {mine}"


@pytest.mark.parametrize("path", MODULES, ids=names)
def test_modules_are_short(path):
    count = len(path.read_text().splitlines())
    assert count <= MAX_LINES, f"{names(path)} has {count} lines; split it where a reader would expect it"


def test_rules_have_no_cycle():
    done: set[str] = set()
    while len(done) < len(ALLOWED):
        ready = {name for name, below in ALLOWED.items() if name not in done and below <= done}
        assert ready, f"a cycle among {set(ALLOWED) - done}"
        done |= ready


def test_modules_have_no_circle():
    graph = {dotted(path): modules_used(path) for path in MODULES}
    wrong = [sorted(group) for group in circles(graph) if {name.rsplit(".", 1)[-1] for name in group} not in CIRCLES]
    assert not wrong, f"modules that import each other: {wrong}; hand over what is used instead"


def test_circles_are_found():
    graph = {"a": {"b"}, "b": {"c", "e"}, "c": {"b"}, "d": {"d"}, "e": set()}
    assert circles(graph) == {frozenset("bc"), frozenset("d")}
    used = {"femgpu.errors", "femgpu.mesh.regions", "femgpu.mesh.block"}
    assert used <= modules_used(ROOT / "mesh" / "mesh.py")


def test_public_names_are_found_where_they_are_said_to_be():
    import femgpu

    for name in femgpu.__all__:
        assert getattr(femgpu, name) is not None
    assert set(femgpu.__all__) == {"mesh"}.union(*femgpu._HOMES.values())
    assert set(femgpu.__all__) <= set(dir(femgpu))
    # What a type checker sees is what a program gets.
    tree = ast.parse((ROOT / "__init__.py").read_text())
    guarded = next(node for node in tree.body if isinstance(node, ast.If))
    assert {name.name for node in ast.walk(guarded) if isinstance(node, ast.ImportFrom) for name in node.names} == set(
        femgpu.__all__
    )
    with pytest.raises(AttributeError, match="no attribute 'Nonsense'; its public names are CG, FCG, FGMRES"):
        _ = femgpu.Nonsense
