"""What code a step runs, in small packages made up here and in the real one."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from drcrm.__main__ import STEPS
from drcrm.experiments import dependencies
from drcrm.experiments.dependencies import PACKAGE, script_files, source_files

EMPTY = {"__init__.py": "", "steps/__init__.py": "", "core/__init__.py": "", "a.py": "", "b.py": "", "core/c.py": ""}


def found(folder: Path, files: dict[str, str]) -> set[str]:
    """What the step ``s`` runs in a package of these files, beside what every step does."""
    package = folder / "pack"
    for name, text in {**EMPTY, **files}.items():
        (package / name).parent.mkdir(parents=True, exist_ok=True)
        (package / name).write_text(text)
    names = [path.relative_to(package).as_posix() for path in source_files("s", package, "steps")]
    assert names == sorted(names)
    assert {"steps/s.py", "steps/__init__.py"} <= set(names)
    return set(names) - {"steps/s.py", "steps/__init__.py"}


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("from ..a import name", {"a.py"}),
        ("from .. import a, b", {"a.py", "b.py"}),
        ("from ..core.c import name", {"core/__init__.py", "core/c.py"}),
        ("from ..core import c", {"core/__init__.py", "core/c.py"}),
        ("from ..core import c as other", {"core/__init__.py", "core/c.py"}),
        ("from .t import name", {"steps/t.py"}),
        ("from . import t", {"steps/t.py"}),
        ("from ..a import *", {"a.py"}),
        ("import pack.a", {"a.py"}),
        ("import pack.core.c as c, pack.b", {"core/__init__.py", "core/c.py", "b.py"}),
        ("import pack.core", {"core/__init__.py"}),
        ("from pack.a import name", {"a.py"}),
        ("from pack import a", {"a.py"}),
        ("from pack.core import c", {"core/__init__.py", "core/c.py"}),
        ("def run():\n    from ..a import name", {"a.py"}),
        ("class A:\n    def run(self):\n        import pack.b", {"b.py"}),
        ("try:\n    from ..a import name\nexcept ImportError:\n    pass", {"a.py"}),
        ("from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from ..a import name", {"a.py"}),
        ("import os, numpy\nfrom json import a\nfrom package.core import a\nimport packs.a", set()),
        ("'from ..a import name'  # from ..b import name", set()),
    ],
)
def test_every_way_to_import_is_followed(tmp_path, line, expected):
    assert found(tmp_path, {"steps/s.py": line, "steps/t.py": ""}) == expected


def test_imports_are_followed_on(tmp_path):
    files = {"steps/s.py": "from ..core import c", "core/c.py": "from .. import a", "a.py": "from .core.d import e"}
    assert found(tmp_path, {**files, "core/d.py": ""}) == {"core/__init__.py", "core/c.py", "a.py", "core/d.py"}


def test_the_packages_on_the_way_are_executed(tmp_path):
    files = {"core/__init__.py": "from ..a import name", "steps/__init__.py": "from .. import b"}
    assert found(tmp_path, {"steps/s.py": "from ..core.c import name", **files}) == {
        *("core/__init__.py", "core/c.py", "a.py", "b.py")
    }
    deeper = {"core/deep/__init__.py": "from . import e", "core/deep/d.py": "", "core/deep/e.py": ""}
    assert set(deeper) | {"core/__init__.py", "b.py"} < found(
        tmp_path, {"steps/s.py": "import pack.core.deep.d", **files, **deeper}
    )


@pytest.mark.parametrize(
    "text",
    [
        *(
            "name = 1",
            "name: int = 1",
            "def name(): ...",
            "class name: ...",
            "from math import pi as name",
            "import name",
        ),
        *(
            "if True:\n    name = 1",
            "for name in (): ...",
            "try:\n    import name\nexcept ImportError:\n    name = None",
        ),
    ],
)
def test_a_name_may_be_the_packages_own(tmp_path, text):
    line = "from ..core import name, c"
    assert found(tmp_path, {"steps/s.py": line, "core/__init__.py": text}) == {"core/__init__.py", "core/c.py"}


def test_a_name_of_the_outermost_package_brings_its_file_along(tmp_path):
    root = {"__init__.py": "from .a import name\nversion = '1'"}
    assert found(tmp_path, {"steps/s.py": "from .. import b", **root}) == {"b.py"}
    assert found(tmp_path, {"steps/s.py": "from .. import version", **root}) == {"__init__.py", "a.py"}


def test_a_name_that_a_package_passes_on_leads_to_where_it_is(tmp_path):
    assert found(tmp_path, {"steps/s.py": "from ..core import name", "core/__init__.py": "from .c import name"}) == {
        *("core/__init__.py", "core/c.py")
    }


def test_a_module_that_moves_into_a_folder_is_still_found(tmp_path):
    files = {"steps/s.py": "from ..a import name", "b.py": ""}
    assert found(tmp_path, files) == {"a.py"}
    (tmp_path / "pack/a.py").unlink()
    files = {"steps/s.py": "from ..core.a import name", "core/a.py": "from ..b import name"}
    assert found(tmp_path, files) == {"core/__init__.py", "core/a.py", "b.py"}


def test_a_module_that_becomes_a_folder_is_still_found(tmp_path):
    """Its folder goes before a file of the same name, as in Python."""
    files = {"steps/s.py": "from ..a import name", "a/__init__.py": "from .name import name", "a/name.py": ""}
    assert found(tmp_path, files) == {"a/__init__.py", "a/name.py"}


def test_steps_may_be_deeper(tmp_path):
    package = tmp_path / "pack"
    files = {"__init__.py": "", "room/__init__.py": "", "room/steps/__init__.py": "", "a.py": ""}
    for name, text in {**files, "room/steps/s.py": "from ...a import name"}.items():
        (package / name).parent.mkdir(parents=True, exist_ok=True)
        (package / name).write_text(text)
    expected = sorted(package / name for name in [*files, "room/steps/s.py"][1:])
    assert source_files("s", package, "room.steps") == expected


def test_cycles_end(tmp_path):
    files = {"a.py": "from . import b, a", "b.py": "from .steps import s\nimport pack.a"}
    assert found(tmp_path, {"steps/s.py": "from .. import a", **files}) == {"a.py", "b.py"}


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("from ..gone import name", "there is no module pack.gone"),
        ("from .gone import name", "there is no module pack.steps.gone"),
        ("from ..core.gone import name", "there is no module pack.core.gone"),
        ("from ..a.gone import name", "there is no module pack.a.gone"),
        ("from .. import a, gone", "pack neither has a module gone nor defines it"),
        ("from ..core import gone", "pack.core neither has a module gone nor defines it"),
        ("from ..core import inner", "pack.core neither has a module inner nor defines it"),
        ("from ..core import *", "pack.core neither has a module * nor defines it"),
        ("from ... import a", "attempted relative import beyond top-level package"),
        ("from ....a import name", "attempted relative import beyond top-level package"),
        ("import pack.gone", "there is no module pack.gone"),
        ("import pack", "it does not say which module of pack"),
        ("from pack.gone import name", "there is no module pack.gone"),
        ("from pack import gone", "pack neither has a module gone nor defines it"),
        ("from ..folder import name", "there is no module pack.folder"),
    ],
)
def test_an_import_that_leads_nowhere_is_an_error_that_says_where(tmp_path, line, fault):
    defined = {"core/__init__.py": "def f():\n    inner = 1", "folder/text.txt": ""}
    path = tmp_path / "pack/steps/s.py"
    with pytest.raises(ImportError) as error:
        found(tmp_path, {**defined, "steps/s.py": f"import os\n\n\ndef run():\n    {line}\n"})
    assert str(error.value) == f"{path}:5: {line}: {fault}"


def test_an_error_in_a_file_reached_through_others_names_that_file(tmp_path):
    files = {"a.py": "from . import core", "core/__init__.py": "\nfrom . import x"}
    with pytest.raises(ImportError, match=re.escape("pack/core/__init__.py:2: from . import x: ")):
        found(tmp_path, {"steps/s.py": "from ..a import name", **files})


def test_scripts_run_what_they_import_of_their_folder_and_of_the_package(tmp_path):
    files = {**EMPTY, "a.py": "from .core import c"}
    for name, text in files.items():
        (tmp_path / "pack" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "pack" / name).write_text(text)
    scripts = tmp_path / "scripts"
    scripts.mkdir()
    texts = {
        "one": "import numpy\nfrom two import name",
        "two": "import three\nfrom pack.a import name",
        "three": "",
        "four": "",
    }
    for name, text in texts.items():
        (scripts / f"{name}.py").write_text(text)
    package = [tmp_path / "pack" / name for name in ("a.py", "core/__init__.py", "core/c.py")]
    beside = [scripts / f"{name}.py" for name in ("one", "three", "two")]
    assert script_files(scripts / "one.py", package=tmp_path / "pack") == [*package, *beside]
    expected = sorted([scripts / "four.py", scripts / "three.py"])
    assert script_files(*expected, package=tmp_path / "pack") == expected


def test_a_step_that_is_none_is_an_error(tmp_path):
    with pytest.raises(ImportError, match=r"there is no module pack\.steps\.s"):
        found(tmp_path, {})


def test_all_that_the_real_steps_import_is_found():
    """Each step is imported anew in one process; the outermost package, with its version, is not compared."""
    script = (
        "import json, sys\nfrom importlib import import_module\nfiles = {}\n"
        f"for step in {list(STEPS)}:\n"
        "    for name in [name for name in sys.modules if name.partition('.')[0] == 'drcrm']:\n"
        "        del sys.modules[name]\n"
        f"    import_module(f'drcrm.{dependencies.STEPS}.{{step}}')\n"
        "    files[step] = [m.__file__ for n, m in sys.modules.items() if n.startswith('drcrm.')]\n"
        "print(json.dumps(files))"
    )
    environment = os.environ | {"PYTHONPATH": str(PACKAGE.parent)}
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True)
    for step, files in json.loads(done.stdout).items():
        assert {Path(file) for file in files} - {PACKAGE / "version.py"} <= set(source_files(step))


# A doubly robust certificate has a cost model: what is certified depends on its code.
@pytest.mark.parametrize("step", sorted(set(STEPS) - {"fit", "cost_model", "evaluate"}))
def test_what_is_made_without_a_cost_model_does_not_depend_on_its_code(step):
    assert "ridge_model" not in {path.stem for path in source_files(step)}


def test_a_fit_does_not_depend_on_the_tables():
    names = {path.stem for path in source_files("fit")}
    assert {"base", "objective", "lbfgs"} < names
    assert not {"result_tables", "markup", "experiment_figures", "style", "source_formats", "crf"} & names
