"""Sources of a data set's files: what is fetched, from where, and when it is fetched again; and digests of code."""

import hashlib
import json
from functools import partial
from http.server import SimpleHTTPRequestHandler
from pathlib import Path

import pooch
import pytest
from fixtures.pipeline import serving
from fixtures.user_input import refusal

from drcrm.files import write_json
from drcrm.paper.sources import Source, code_digest, local_digests, read_record, source_digest

NAME = "a.svm"
OLD, NEW = (hashlib.sha256(content).hexdigest() for content in (b"old", b"new"))
URL = "https://example.org/data"
CODE = '"""A module."""\n\n\ndef f():\n    """Return 1."""\n    return 1\n'


@pytest.fixture
def new_mirror(tmp_path):
    """Return a folder with the new file."""
    (tmp_path / NAME).write_bytes(b"new")
    return str(tmp_path)


def compared(mirror: str | None, record: dict, **sha256) -> dict:
    return local_digests(Source(mirror=mirror, sha256=sha256), [NAME], record)


def recorded(place: str | None, digest: str) -> dict:
    return {NAME: {"from": place, "sha256": digest}}


@pytest.mark.parametrize("elsewhere", [None, URL, "/nowhere"])
def test_a_file_of_a_local_mirror_counts_after_the_mirror_is_gone(new_mirror, elsewhere):
    assert compared(new_mirror, {}) == compared(elsewhere, recorded(new_mirror, NEW)) == {NAME: NEW}


def test_other_content_of_a_local_mirror_counts(new_mirror):
    for place in ("/elsewhere", URL, None):
        assert compared(new_mirror, recorded(place, OLD)) == {NAME: NEW}


@pytest.mark.parametrize("place", [URL, None])
def test_a_file_from_a_url_does_not_count(new_mirror, place):
    """Before it is fetched, afterwards, and once a local new_mirror has the same content."""
    assert compared(URL, {}) == compared(None, {}) == compared(URL, recorded(place, NEW)) == {}
    assert compared(new_mirror, recorded(place, NEW)) == {}


def test_a_configured_digest_is_not_compared(new_mirror):
    assert compared(new_mirror, recorded(new_mirror, OLD), **{NAME: NEW}) == {}


def test_a_record_is_read_as_written_and_a_damaged_one_is_empty(tmp_path):
    path = tmp_path / "origin.json"
    write_json(path, recorded(URL, OLD))
    assert read_record(path) == recorded(URL, OLD)
    for damaged in ("", "[]", "{}x", json.dumps({NAME: {"from": 1}}), json.dumps({NAME: 3})):
        path.write_text(damaged)
        assert read_record(path) == {}
    assert read_record(tmp_path / "none.json") == {}


def listing(folder: Path) -> list[str]:
    """Return all names in a folder, hidden or not."""
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def sha256_of(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


@pytest.fixture
def server(tmp_path_factory, monkeypatch):
    """Return the address of a server on this machine, and the folder whose files it serves."""
    folder = tmp_path_factory.mktemp("served")
    monkeypatch.setattr(pooch.core.time, "sleep", lambda seconds: None)  # between its attempts
    with serving(partial(SimpleHTTPRequestHandler, directory=str(folder))) as http:
        yield http.url, folder


@pytest.fixture
def mirror(tmp_path):
    folder = tmp_path / "mirror"
    folder.mkdir()
    return folder


GOOD, BAD = b"0,2 1:0.5 3:2\n", b"something else"
SHA = {"a.svm": sha256_of(GOOD)}


class TestFetching:
    @pytest.mark.parametrize(("role", "sha256"), [("mirror", {}), ("url", SHA)])
    def test_from_a_url_and_only_once(self, tmp_path, server, role, sha256):
        url, served = server
        (served / "a.svm").write_bytes(GOOD)
        for _ in range(2):
            assert Source(**{role: url}, sha256=sha256).fetch("a.svm", tmp_path)[0].read_bytes() == GOOD
            (served / "a.svm").unlink(missing_ok=True)
        assert Source(sha256=sha256).fetch("a.svm", tmp_path)[1] is None
        assert listing(tmp_path) == ["a.svm"]

    @pytest.mark.parametrize("content", [None, BAD], ids=["without", "wrong"])
    def test_a_file_that_the_mirror_lacks_comes_from_the_url(self, tmp_path, mirror, server, content):
        url, served = server
        if content is not None:
            (mirror / "a.svm").write_bytes(content)
        (served / "a.svm").write_bytes(GOOD)
        assert Source(url, str(mirror), SHA).fetch("a.svm", tmp_path / "raw")[0].read_bytes() == GOOD
        assert listing(tmp_path / "raw") == ["a.svm"]

    @pytest.mark.parametrize("over_http", [False, True])
    def test_a_wrong_digest_is_an_error_and_leaves_nothing(self, tmp_path, server, over_http):
        url, served = server
        (served / "a.svm").write_bytes(BAD)
        place = url if over_http else str(served)
        message = refusal(Source(mirror=place, sha256=SHA).fetch, "a.svm", tmp_path / "raw")
        assert message.startswith(f"a.svm: could not be fetched: {place}: ")
        assert sha256_of(GOOD) in message
        assert sha256_of(BAD) in message
        assert listing(tmp_path / "raw") == []


@pytest.fixture
def digest(tmp_path):
    """Return a function to the digest of a package with a module, a table and a folder that is left out."""

    def of(code: str = CODE, table: str = "a,b\n", name: str = "module", left: str = "") -> str:
        for path, text in {f"{name}.py": code, "table.csv": table, "cli/command.py": left, "x.pyc": left}.items():
            (tmp_path / path).parent.mkdir(exist_ok=True)
            (tmp_path / path).write_text(text)
        source_digest.cache_clear()
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
