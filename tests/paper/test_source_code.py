"""Digests of source code: what changes them and what does not."""

import pytest

from drcrm.paper.source_code import code_digest, version

CODE = '"""A module."""\n\n\ndef f():\n    """Return 1."""\n    return 1\n'


@pytest.fixture
def digest(tmp_path):
    """Return a function to the digest of a package with a module, a table and a folder that is left out."""

    def of(code: str = CODE, table: str = "a,b\n", name: str = "module", left: str = "") -> str:
        for path, text in {f"{name}.py": code, "table.csv": table, "cli/command.py": left, "x.pyc": left}.items():
            (tmp_path / path).parent.mkdir(exist_ok=True)
            (tmp_path / path).write_text(text)
        version.cache_clear()
        code_digest.cache_clear()
        result = code_digest(tmp_path, "cli")
        (tmp_path / f"{name}.py").unlink()
        return result

    return of


def test_comments_docstrings_and_folders_that_are_left_out_change_nothing(digest):
    changed = CODE.replace("Return 1", "Return one").replace("A module", "Some module") + "# a comment\n"
    assert digest(changed, left="changed = True\n") == digest()


@pytest.mark.parametrize("change", [{"code": CODE.replace("return 1", "return 2")}, {"table": "a,c\n"}, {"name": "b"}])
def test_code_data_and_names_change_the_digest(digest, change):
    assert digest(**change) != digest()
