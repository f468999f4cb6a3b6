"""The rooms of the package and the order in which they import each other; file sizes; what an import costs."""

import ast
import pathlib
import subprocess
import sys

import pytest

import fdcheck
from fdcheck.numerics import sweeps

ROOT = pathlib.Path(fdcheck.__file__).parent
FILES = sorted(ROOT.rglob("*.py"))
NAMES = [".".join(("fdcheck", *path.relative_to(ROOT).with_suffix("").parts)) for path in FILES]

ROOMS = (
    ("statuses", "parts", "results", "evidence", "estimates", "advice", "settings", "execution"),
    ("problem",),
    ("numerics",),
    ("checks",),
    ("report",),
    ("at_points",),
    ("api", "recommend"),
    ("several", "second_order", "replaying"),
)
FRONT_ENDS = len(ROOMS)
"""Where everything else stands: cli, cli_tesseract, demo, adapters."""

RENDERING = "fdcheck.report"


def room_of(module):
    """Return how far back in the house a module lies; the front ends come last."""
    parts = module.split(".")
    first = parts[1] if len(parts) > 1 else "__init__"
    return next((k for k, room in enumerate(ROOMS) if first in room), FRONT_ENDS)


def imports_of(path):
    """Yield (imported module or name, whether it is imported inside a function, whether it is only for types)."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    typing_only = {
        id(node)
        for block in ast.walk(tree)
        if isinstance(block, ast.If) and ast.unparse(block.test) == "TYPE_CHECKING"
        for node in ast.walk(block)
    }
    inside = {
        id(node)
        for block in ast.walk(tree)
        if isinstance(block, ast.FunctionDef | ast.AsyncFunctionDef)
        for node in ast.walk(block)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: a relative import"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        for name in names:
            yield name, id(node) in inside, id(node) in typing_only


@pytest.mark.parametrize("path", FILES, ids=NAMES)
def test_nothing_imports_from_a_later_room(path):
    module = ".".join(("fdcheck", *path.relative_to(ROOT).with_suffix("").parts))
    own = room_of(module)
    for name, inside, typing_only in imports_of(path):
        if name.split(".")[0] != "fdcheck" or (module == "fdcheck.__init__" and typing_only):
            continue
        allowed = (
            module in ("fdcheck.results", "fdcheck.estimates", "fdcheck.advice")
            and inside
            and name.startswith(RENDERING)
        )
        assert allowed or room_of(name) <= own, f"{module} imports {name}"


def test_results_imports_nothing_of_ours_but_renderers_inside_methods():
    imports = [(name, inside) for name, inside, typing_only in imports_of(ROOT / "results.py") if not typing_only]
    plain = ("fdcheck.statuses.", "fdcheck.parts.")
    ours = [(name, inside) for name, inside in imports if name.startswith("fdcheck") and not name.startswith(plain)]
    assert ours
    assert all(inside and name.startswith(RENDERING) for name, inside in ours)


def test_kernels_are_compiled_in_one_room_and_call_none_of_another_file():
    users = {path for path in FILES for name, *_ in imports_of(path) if name.split(".")[0] == "numba"}
    assert users == {ROOT / "numerics" / name for name in ("compiled.py", "sweeps.py")}
    ours = {name for name, *_ in imports_of(ROOT / "numerics" / "kernels.py") if name.startswith("fdcheck")}
    assert not ours  # a cached kernel would keep serving the old code of another file
    assert set(sweeps.sweep.__code__.co_names) & set(vars(sweeps)) == {"np"}
    for path in ROOT.glob("problem/*.py"):
        assert "numba" not in path.read_text(encoding="utf-8"), path


def test_no_module_bears_a_public_name():
    stems = {part for path in FILES for part in path.relative_to(ROOT).with_suffix("").parts}
    assert len(fdcheck.__all__) > 10
    assert not stems & set(fdcheck.__all__)


def allowed(path):
    return 700 if path.name == "kernels.py" else 400


def length(path):
    return len(path.read_text(encoding="utf-8").splitlines())


@pytest.mark.parametrize("path", FILES, ids=NAMES)
def test_files_stay_short(path):
    assert length(path) < allowed(path)


def test_importing_the_package_imports_nothing_heavy():
    code = (
        "import sys, fdcheck; "
        "print(sorted({'numba', 'scipy', 'rich', 'click', 'llvmlite', 'optree'} & set(sys.modules))); "
        "print(fdcheck.Status.AGREES, 'numba' in sys.modules, fdcheck.verify.__name__, 'numba' in sys.modules)"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120)
    assert out.stdout.splitlines() == ["[]", "agrees False verify False"]


def test_the_commands_for_other_libraries_import_them_only_when_run():
    code = (
        "import sys, fdcheck.cli, fdcheck.cli_tesseract; "
        "print(sorted({'tesseract_core', 'pydantic', 'requests', 'numpy', 'fdcheck.adapters'} & set(sys.modules)))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120)
    assert out.stdout.splitlines() == ["[]"]


def test_all_public_names_are_there_and_others_are_not():
    for name in fdcheck.__all__:
        assert getattr(fdcheck, name) is not None
    assert set(fdcheck.__all__) <= set(dir(fdcheck))
    with pytest.raises(AttributeError, match="gradient"):
        fdcheck.gradient  # noqa: B018
