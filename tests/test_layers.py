"""The house of docs/architecture.md: data runs downward through the package, imports run upward only."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "dsrt_lightning"
LAYERS = ("store", "population", "draws", "loading", "training")
# May be imported from everywhere; they import nothing of the package.
FOUNDATIONS = {"errors", "_core"}
# Third-party module -> the places that may import it.
RESERVED = {
    "polars": ("store", "population"),
    "torch": ("loading", "training", "cli"),
    "lightning": ("training",),
    "torchdata": ("loading/nodes.py",),
}
# Loaded only when used: imported inside functions, but for loading/nodes.py, whose class is a torchdata node
# and which is itself imported inside functions. Worker processes unpickle our objects and must not load these.
LAZY = ("polars", "torchdata", "dsrt_lightning.loading.nodes")


class Import(NamedTuple):
    """One imported module as the source names it, made absolute."""

    where: str
    module: str
    at_run_time: bool  # False under TYPE_CHECKING
    in_function: bool


def imports_of(path: Path) -> Iterator[Import]:
    package = path.relative_to(ROOT).with_suffix("").parts[:-1]

    def walk(node: ast.AST, at_run_time: bool, in_function: bool) -> Iterator[Import]:
        where = f"{path.relative_to(ROOT)}:{getattr(node, 'lineno', 0)}"
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(where, alias.name, at_run_time, in_function)
        elif isinstance(node, ast.ImportFrom):
            base = ".".join(package[: len(package) + 1 - node.level]) if node.level else ""
            module = ".".join(part for part in (base, node.module) if part)
            # `from package import layer` names a module too.
            for alias in node.names:
                yield Import(where, f"{module}.{alias.name}", at_run_time, in_function)
        elif isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            for child in node.body:
                yield from walk(child, False, in_function)
            for child in node.orelse:
                yield from walk(child, at_run_time, in_function)
        else:
            inside = in_function or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
            for child in ast.iter_child_nodes(node):
                yield from walk(child, at_run_time, inside)

    yield from walk(ast.parse(path.read_text()), True, False)


def layer_of(path: Path) -> str:
    return path.relative_to(PACKAGE).with_suffix("").parts[0]


MODULES = sorted(PACKAGE.rglob("*.py"))
IMPORTS = [(path, found) for path in MODULES for found in imports_of(path)]


def test_every_layer_has_modules() -> None:
    assert {layer_of(path) for path in MODULES} >= {*LAYERS, "cli", "errors"}


def test_no_module_imports_a_lower_layer() -> None:
    wrong = []
    for path, found in IMPORTS:
        target = re.match(r"dsrt_lightning\.(\w+)", found.module)
        importer = layer_of(path)
        if not target or importer not in LAYERS:
            continue
        imported = target[1]
        if imported in FOUNDATIONS:
            continue
        if imported not in LAYERS or LAYERS.index(imported) > LAYERS.index(importer):
            wrong.append(f"{found.where} imports {found.module}")
    assert wrong == []


def test_the_foundations_import_nothing_of_the_package() -> None:
    assert [f.where for path, f in IMPORTS if layer_of(path) in FOUNDATIONS and "dsrt_lightning" in f.module] == []


@pytest.mark.parametrize("library", RESERVED)
def test_third_party_module_is_imported_only_where_it_may_be(library: str) -> None:
    wrong = [
        f"{found.where} imports {found.module}"
        for path, found in IMPORTS
        if found.at_run_time
        and found.module.split(".")[0] in ({library, "pytorch_lightning"} if library == "lightning" else {library})
        and not path.relative_to(PACKAGE).as_posix().startswith(RESERVED[library])
    ]
    assert wrong == []


@pytest.mark.parametrize("module", LAZY)
def test_lazy_module_is_imported_inside_functions_only(module: str) -> None:
    wrong = [
        f"{found.where} imports {found.module}"
        for path, found in IMPORTS
        if f"{found.module}.".startswith(f"{module}.")
        and found.at_run_time
        and not found.in_function
        and path != PACKAGE / "loading/nodes.py"
    ]
    assert wrong == []


def test_the_core_includes_neither_python_nor_torch() -> None:
    files = [path for kind in ("*.h", "*.cpp") for path in sorted((ROOT / "csrc/dsrt").glob(kind))]
    assert files
    forbidden = re.compile(r'#include\s*[<"](Python\.h|pybind11|torch|ATen|c10|bindings/)')
    assert [path.name for path in files if forbidden.search(path.read_text())] == []
