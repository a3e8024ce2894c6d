"""Source files of a step, in small packages made here and in this one."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

from drcrm.experiments.dependencies import source_files
from drcrm.experiments.steps import STEPS

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src/drcrm"
EMPTY = {"__init__.py": "", "steps/__init__.py": "", "core/__init__.py": "", "a.py": "", "b.py": "", "core/c.py": ""}
CORE = {"core/__init__.py", "core/c.py"}


def files_of_step(folder: Path, files: dict[str, str]) -> set[str]:
    """Return the files that the step ``s`` of a package runs, except its own and those of every step."""
    package = folder / "pack"
    for name, text in {**EMPTY, **files}.items():
        (package / name).parent.mkdir(parents=True, exist_ok=True)
        (package / name).write_text(text)
    names = [path.relative_to(package).as_posix() for path in source_files(package, package / "steps/s.py")]
    assert names == sorted(names)
    return set(names) - {"steps/s.py", "steps/__init__.py"}


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("from pack.a import name", {"a.py"}),
        ("from pack import a, b", {"a.py", "b.py"}),
        ("from pack.core.c import name", CORE),
        ("from pack.core import c as name", CORE),
        ("import pack.core.c as c, pack.b", CORE | {"b.py"}),
        ("import pack.core", {"core/__init__.py"}),
        ("def run():\n    from pack.a import name", {"a.py"}),
        ("try:\n    from pack.a import name\nexcept ImportError:\n    pass", {"a.py"}),
        ("import os, numpy\nfrom json import a\nfrom package.core import a\nimport packs.a", set()),
        ("'from pack.a import name'  # from pack.b import name", set()),
    ],
)
def test_every_absolute_import_is_followed(tmp_path, line, expected):
    assert files_of_step(tmp_path, {"steps/s.py": line}) == expected


def test_imports_are_followed_on_through_packages(tmp_path):
    files = {"steps/s.py": "from pack.core import c", "core/__init__.py": "from pack.b import x"}
    files |= {"core/c.py": "from pack import a", "a.py": "from pack.core.d import e", "core/d.py": ""}
    assert files_of_step(tmp_path, files) == {*CORE, "a.py", "b.py", "core/d.py"}


def test_scripts_run_the_files_next_to_them_too(tmp_path):
    files_of_step(tmp_path, {"steps/s.py": ""})
    for name, text in {"study": "import finished\nfrom pack.core import c", "finished": "from pack import a"}.items():
        (tmp_path / f"{name}.py").write_text(text)
    (tmp_path / "another.py").write_text("from pack import b")
    files = source_files(tmp_path / "pack", tmp_path / "study.py")
    names = {path.relative_to(tmp_path).as_posix() for path in files}
    assert names == {"study.py", "finished.py", "pack/a.py", *(f"pack/{name}" for name in CORE)}


def test_all_modules_that_the_steps_import_are_among_their_files():
    """Python's own list of imported modules, without imports inside functions and those of the package itself."""
    modules = sorted({*STEPS.values()})
    imports = ", ".join(f"drcrm.experiments.steps.{module}" for module in modules)
    code = (
        f"import json, sys, {imports}; "
        "print(json.dumps([m.__file__ for name, m in sys.modules.items() if name.startswith('drcrm.')]))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT / "src", capture_output=True, text=True, check=True)
    files = {path for name in modules for path in source_files(PACKAGE, PACKAGE / f"experiments/steps/{name}.py")}
    assert {Path(path) for path in json.loads(done.stdout)} - {PACKAGE / "version.py"} <= files


def test_the_package_has_no_relative_imports():
    """``source_files`` does not follow them."""
    for path in PACKAGE.rglob("*.py"):
        nodes = ast.walk(ast.parse(path.read_bytes()))
        assert not [node.lineno for node in nodes if isinstance(node, ast.ImportFrom) and node.level], path
