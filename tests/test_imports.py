"""The arrows between the rooms, read from the imports: commands and pipeline → the others → core; and no circle."""

from __future__ import annotations

from graphlib import TopologicalSorter
from pathlib import Path

import pytest

from drcrm.pipeline.dependencies import PACKAGE, imports

ROOMS = ("core", "data", "simulation", "logs", "pipeline", "report", "commands")
BESIDE = {"errors", "feature_maps", "files", "shipped", "unique_keys"}
ALLOWED = {
    "core": {"core", "data", "errors"},
    "data": {"data", "errors"},
    "simulation": {"simulation", "core", "errors"},
    "report": {"report", "core", "roles", "errors"},
    "feature_maps": {"core", "data", "errors"},
    "logs": {"logs", "core", "data", "feature_maps", "files", "unique_keys", "version", "errors"},
    "pipeline": {"pipeline", "simulation", "core", "data", "logs", "report", *BESIDE, "roles"},
    "commands": {"commands", "logs", "core", "data", "report", *BESIDE, "progress", "version"},
    "progress": {"core", "data"},
    "files": {"errors"},
    "unique_keys": {"errors"},
    "shipped": {"core", "errors"},
    "version": set(),
    "roles": set(),
    "locks": set(),
    "errors": set(),
}


def place(path: Path, package: Path) -> str:
    """The room that a file is in, or which of those beside them it is; what else is outside is the public door."""
    first, *inside = path.relative_to(package).with_suffix("").parts
    return first if inside or first in ALLOWED else "door"


def forbidden(package: Path) -> list[str]:
    """The imports of a package that go against the arrows, ``importer → imported``; the door may import all."""
    return [
        f"{importer.relative_to(package).as_posix()} → {imported.relative_to(package).as_posix()}"
        for importer, files in imports(package).items()
        if (room := place(importer, package)) != "door"
        for imported in files
        if place(imported, package) not in ALLOWED[room]
    ]


def test_imports_go_along_the_arrows():
    assert forbidden(PACKAGE) == []


def test_no_import_leads_back_to_where_it_came_from():
    """Those in functions and for type checkers count too."""
    TopologicalSorter({path: {*files} - {path} for path, files in imports(PACKAGE).items()}).prepare()


def test_every_folder_is_a_room():
    assert sorted(path.parent.name for path in PACKAGE.glob("*/__init__.py")) == sorted(ROOMS)


@pytest.fixture
def tree(tmp_path) -> Path:
    """A package with the rooms, in each a module that imports what it may."""
    package = tmp_path / "drcrm"
    door = ["__init__.py", "__main__.py", "estimators.py", "risks.py"]
    for name in [
        "errors.py",
        "feature_maps.py",
        "files.py",
        "locks.py",
        "progress.py",
        "roles.py",
        "shipped.py",
        "unique_keys.py",
        "version.py",
        *door,
        *(f"{room}/{file}.py" for room in ROOMS for file in ("a", "b")),
    ]:
        (package / name).parent.mkdir(parents=True, exist_ok=True)
        (package / name).write_text("")
    (package / "__init__.py").write_text("KLDRO = 1\n")
    for room in ROOMS:
        (package / room / "__init__.py").write_text("")
        lines = [f"from ..{to}.b import c" if to in ROOMS else f"from ..{to} import c" for to in sorted(ALLOWED[room])]
        (package / room / "a.py").write_text("\n".join(lines))
    (package / "estimators.py").write_text("from .core import a\nfrom .pipeline.a import c\n")
    return package


def test_what_is_allowed_is_not_reported(tree):
    assert forbidden(tree) == []


@pytest.mark.parametrize(
    ("importer", "line", "imported"),
    [
        *((f"core/{name}.py", "from ..simulation.b import c", "simulation/b.py") for name in ("b", "__init__")),
        ("core/b.py", "from .. import roles", "roles.py"),
        ("core/b.py", "def f():\n    from ..pipeline import b", "pipeline/b.py"),
        ("core/b.py", "import numpy, drcrm.report.b as r", "report/b.py"),
        ("core/b.py", "from ..risks import KLBall", "risks.py"),
        ("simulation/b.py", "from drcrm.pipeline.b import c", "pipeline/b.py"),
        ("simulation/b.py", "from ..report import b", "report/b.py"),
        ("simulation/b.py", "from ..roles import LOSSES", "roles.py"),
        ("simulation/b.py", "from drcrm import KLDRO", "__init__.py"),
        ("report/b.py", "try:\n    from ..pipeline.b import c\nexcept ImportError:\n    pass", "pipeline/b.py"),
        ("report/b.py", "if TYPE_CHECKING:\n    from ..pipeline.b import c", "pipeline/b.py"),
        ("report/b.py", "from ..simulation.b import c", "simulation/b.py"),
        ("report/b.py", "from .. import estimators", "estimators.py"),
        ("pipeline/b.py", "from ..estimators import KLDRO", "estimators.py"),
        ("pipeline/b.py", "from .. import KLDRO", "__init__.py"),
        ("pipeline/b.py", "import drcrm.__main__", "__main__.py"),
        ("pipeline/b.py", "from ..risks import KLBall", "risks.py"),
        ("roles.py", "def f():\n    from .core.b import c", "core/b.py"),
        ("roles.py", "from .pipeline.b import c", "pipeline/b.py"),
        ("errors.py", "from .roles import LOSSES", "roles.py"),
    ],
)
def test_an_arrow_turned_round_is_reported(tree, importer, line, imported):
    (tree / importer).write_text(line)
    assert f"{importer} → {imported}" in forbidden(tree)


def test_the_bare_package_says_nothing_of_what_it_is_for(tree):
    (tree / "core/b.py").write_text("import drcrm")
    with pytest.raises(ImportError, match=r"core/b\.py:1: import drcrm: it does not say which module"):
        forbidden(tree)
