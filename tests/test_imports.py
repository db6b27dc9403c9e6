"""Imports point one way: cli -> evaluation | training -> recognition -> models -> centroids."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "dnc"
MODULES = sorted(SOURCE.rglob("*.py"))

# What each part may import of dnc, itself apart.
ALLOWED = {
    "errors": set(),
    "files": set(),
    "centroids": {"errors"},
    "data": {"errors", "files"},
    "rivals": {"centroids", "errors"},
    "models": {"centroids", "errors", "rivals"},
    "estimator": {"centroids", "errors"},
    "recognition": {"centroids", "data", "errors", "explanation", "models"},
    "scene_recognition": {"data", "errors", "explanation", "models", "recognition"},
    "durations": set(),
    "study": {"data", "durations", "errors", "evaluation", "files", "models", "training"},
    "training": {
        *("centroids", "durations", "data", "errors", "estimator", "evaluation", "files", "models"),
        *("explanation", "recognition", "rivals", "scene_recognition", "__version__"),
    },
    "evaluation": {
        *("centroids", "data", "errors", "files", "models", "recognition", "scene_recognition"),
    },
    "explanation": {"centroids", "data", "errors", "files", "models", "__version__"},
    "report": {
        *("centroids", "data", "errors", "evaluation", "explanation", "files"),
        *("recognition", "training"),
    },
    "demo": {
        *("centroids", "data", "errors", "estimator", "explanation", "files", "models"),
        *("recognition", "report", "training"),
    },
    "cli": {
        *("data", "demo", "errors", "evaluation", "explanation", "files", "models"),
        *("recognition", "report", "durations", "scene_recognition", "study", "training"),
        "__version__",
    },
    "__init__": {
        *("centroids", "estimator", "explanation", "models", "recognition", "training"),
        "scene_recognition",
    },
}


def imported(path: Path) -> set[str]:
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


def part_of(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_imports_point_one_way(path):
    parts = {name.split(".")[1] for name in imported(path) if name.startswith("dnc.")}
    assert parts - {part_of(path)} <= ALLOWED[part_of(path)]


@pytest.mark.parametrize(
    "path", [path for path in MODULES if part_of(path) == "centroids"], ids=lambda path: path.stem
)
def test_the_algorithm_needs_torch_alone(path):
    roots = {name.split(".")[0] for name in imported(path)}
    # jaxtyping is a notation for shapes; it is checked in tests only.
    assert roots - set(sys.stdlib_module_names) <= {"torch", "jaxtyping", "dnc"}


def test_every_module_can_be_imported_first():
    names = [
        ".".join(("dnc", *path.relative_to(SOURCE).with_suffix("").parts)).removesuffix(".__init__")
        for path in MODULES
    ]
    code = "import importlib, sys\nfor name in sys.argv[1:]:\n    importlib.import_module(name)"
    for first in ("dnc.centroids.head", "dnc.report.writing"):
        subprocess.run([sys.executable, "-c", code, first, *names], check=True)
