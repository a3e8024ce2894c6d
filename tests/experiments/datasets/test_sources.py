"""Where the files of a data set came from, and when they are fetched again."""

from __future__ import annotations

import hashlib
import json

import pytest

from drcrm.experiments.datasets.sources import Source, local_contents, origin_of, read_record
from drcrm.files import write_json

NAME = "a.svm"
OLD, NEW = (hashlib.sha256(content).hexdigest() for content in (b"old", b"new"))
URL = "https://example.org/data"


@pytest.fixture
def mirror(tmp_path):
    """A folder with the file, as it is now."""
    (tmp_path / NAME).write_bytes(b"new")
    return str(tmp_path)


def compared(mirror: str | None, record: dict, **sha256) -> dict:
    return local_contents(Source(mirror=mirror, sha256=sha256), [NAME], record)


def recorded(place: str | None, digest: str) -> dict:
    return {NAME: {"from": place, "sha256": digest}}


@pytest.mark.parametrize("elsewhere", [None, URL, "/nowhere"])
def test_what_a_local_mirror_gave_counts_when_that_is_gone(mirror, elsewhere):
    assert compared(mirror, {}) == compared(elsewhere, recorded(mirror, NEW)) == {NAME: NEW}


def test_another_content_of_a_local_mirror_counts(mirror):
    for place in ("/elsewhere", URL, None):
        assert compared(mirror, recorded(place, OLD)) == {NAME: NEW}


@pytest.mark.parametrize("place", [URL, None])
def test_what_came_from_afar_does_not_count(mirror, place):
    """Neither before it is fetched, nor after, nor once a local mirror has the same."""
    assert compared(URL, {}) == compared(None, {}) == compared(URL, recorded(place, NEW)) == {}
    assert compared(mirror, recorded(place, NEW)) == {}


def test_a_known_digest_is_not_compared(mirror):
    assert compared(mirror, recorded(mirror, OLD), **{NAME: NEW}) == {}


def test_a_file_that_is_kept_keeps_its_entry(mirror):
    source, known = Source(mirror=mirror), {"from": URL, "sha256": NEW}
    assert origin_of(known, None, NEW, source, NAME) == known
    assert (
        origin_of({}, None, NEW, source, NAME)
        == origin_of({}, mirror, NEW, source, NAME)
        == {"from": mirror, "sha256": NEW}
    )
    assert origin_of(known, None, OLD, source, NAME) == {"from": None, "sha256": OLD}


def test_a_record_comes_back_and_a_damaged_one_is_none(tmp_path):
    path = tmp_path / "origin.json"
    write_json(path, recorded(URL, OLD))
    assert read_record(path) == recorded(URL, OLD)
    for damaged in ("", "[]", "{}x", json.dumps({NAME: {"from": 1}}), json.dumps({NAME: 3})):
        path.write_text(damaged)
        assert read_record(path) == {}
    assert read_record(tmp_path / "none.json") == {}
