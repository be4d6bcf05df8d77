"""Imports point one way, packages declare what they export, and both kinds of install find them."""

from __future__ import annotations

import ast
import importlib
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SOURCES = {"zcuda_async": ROOT / "zcuda_async", "zcuda_compat": ROOT / "compat" / "zcuda_compat"}

# Lowest first; a module may import from its own layer and from those below.
LAYERS = (
    (
        "zcuda_async._version",
        "zcuda_async.callbacks",
        "zcuda_async.errors",
        "zcuda_async.formatting",
        "zcuda_async.threads",
    ),
    ("zcuda_async.ptx",),
    ("zcuda_async.jit",),
    ("zcuda_async.memory", "zcuda_async.executor", "zcuda_async.interpreter", "zcuda_async.timing"),
    ("zcuda_async",),
    ("zcuda_compat",),
)
# The memory's foundations and the compiler's plain data serve every layer.
COMMON = {
    "zcuda_async.jit.abi",
    "zcuda_async.jit.info",
    "zcuda_async.jit.texture_header",
    "zcuda_async.ptx.errors",
    "zcuda_async.ptx.ir",
}
# What runs in child processes, or is pure: no event loop in there.
LOOPLESS = (
    "zcuda_async.ptx",
    "zcuda_async.jit",
    "zcuda_async.interpreter",
    "zcuda_async.executor.child_main",
    "zcuda_async.executor.compiler_process",
    "zcuda_async.executor.frames",
    "zcuda_async.executor.worker",
    "zcuda_async.executor.worker_loop",
)
EVENT_LOOPS = {"anyio", "asyncio", "trio", "sniffio"}
RUN_TIME_DEPENDENCIES = {"anyio", "llvmlite", "numpy"}


def modules() -> Iterator[tuple[str, ast.Module]]:
    for package, folder in SOURCES.items():
        for path in sorted(folder.rglob("*.py")):
            parts = path.relative_to(folder).with_suffix("").parts
            name = ".".join((package, *(part for part in parts if part != "__init__")))
            yield name, ast.parse(path.read_text(), str(path))


MODULES = dict(modules())


def executed(node: ast.AST) -> Iterator[ast.AST]:
    """All nodes but those under ``if TYPE_CHECKING``, which bind nothing when the program runs."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING":
            continue
        yield child
        yield from executed(child)


def imports(tree: ast.Module) -> set[str]:
    found: set[str] = set()
    for node in executed(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            assert node.module is not None
            found |= {f"{node.module}.{alias.name}" for alias in node.names} | {node.module}
    return {name if name in MODULES or is_foreign(name) else name.rpartition(".")[0] for name in found}


def is_foreign(name: str) -> bool:
    return name.partition(".")[0] not in SOURCES


def layer(name: str) -> int:
    def covers(prefix: str) -> bool:
        return name == prefix or name.startswith(f"{prefix}.")

    return next(level for level, prefixes in enumerate(LAYERS) if any(map(covers, prefixes)))


def belongs(name: str, prefixes: tuple[str, ...]) -> bool:
    return any(name == prefix or name.startswith(f"{prefix}.") for prefix in prefixes)


@pytest.mark.parametrize("name", MODULES)
def test_imports_never_point_upward(name: str) -> None:
    ours = {imported for imported in imports(MODULES[name]) if not is_foreign(imported)} - COMMON
    upward = {imported for imported in ours if layer(imported) > layer(name)}
    assert not upward


@pytest.mark.parametrize("name", [name for name in MODULES if name.startswith("zcuda_compat")])
def test_compat_imports_only_the_public_package(name: str) -> None:
    ours = {imported for imported in imports(MODULES[name]) if imported.startswith("zcuda_async")}
    assert ours <= {"zcuda_async"}


@pytest.mark.parametrize("name", [name for name in MODULES if belongs(name, LOOPLESS)])
def test_children_and_the_compiler_import_no_event_loop(name: str) -> None:
    roots = {imported.partition(".")[0] for imported in imports(MODULES[name])}
    assert not roots & EVENT_LOOPS


def test_nothing_beyond_the_dependencies_is_imported() -> None:
    roots = {imported.partition(".")[0] for tree in MODULES.values() for imported in imports(tree)}
    allowed = RUN_TIME_DEPENDENCIES | set(SOURCES) | set(sys.stdlib_module_names)
    assert roots - allowed <= {"matplotlib", "sniffio", "trio"}  # an extra; what anyio uses where it is installed


@pytest.mark.parametrize("name", [name for name in MODULES if not name.endswith("__main__")])
def test_all_is_a_tuple_of_what_exists(name: str) -> None:
    module = importlib.import_module(name)
    exported = getattr(module, "__all__", ())
    assert isinstance(exported, tuple)
    assert all(hasattr(module, attribute) for attribute in exported)
    assert len(set(exported)) == len(exported)


def test_the_public_package_exports_what_it_lists() -> None:
    package = importlib.import_module("zcuda_async")
    submodules = {name.split(".")[1] for name in MODULES if name.count(".") >= 1 and name.startswith("zcuda_async.")}
    public = {name for name in dir(package) if not name.startswith("_")} - submodules
    assert public == {name for name in package.__all__ if not name.startswith("_")}


@pytest.mark.parametrize("name", MODULES)
def test_files_stay_readable(name: str) -> None:
    tree = MODULES[name]
    assert ast.get_docstring(tree), "a module says what it is for"
    assert max((node.end_lineno or 0 for node in tree.body), default=0) <= 600


def test_no_registry_host_is_named() -> None:
    hosts = re.compile(r"\b(?:pypi\.org|pythonhosted\.org|npmjs\.org|debian\.org)\b")
    texts = [path for pattern in ("*.toml", "*.md", "Makefile", ".ci/*") for path in ROOT.glob(pattern)]
    assert not [path.name for path in texts if hosts.search(path.read_text())]
