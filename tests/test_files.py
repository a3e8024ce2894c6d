"""npz files that are damaged, or whose arrays are not what they should be."""

from __future__ import annotations

import io
import os
import stat
import subprocess
import sys
import threading
import zipfile
from pathlib import Path

import numpy as np
import pytest

import drcrm
from drcrm.errors import InputError
from drcrm.experiments.datasets.array_files import read_contexts, read_fits, read_policy, read_split
from drcrm.experiments.steps.cost_model import read_cost_model
from drcrm.files import atomic, is_stream, read_npz, write_npz, write_text

OURS = os.environ | {"PYTHONPATH": str(Path(drcrm.__file__).parents[1])}  # for processes in other folders


def fault(read, path: Path, *arguments) -> str:
    """What is said of a file, which is one line with its name in front."""
    with pytest.raises(InputError) as error:
        read(path, *arguments)
    message = str(error.value)
    assert message.startswith(f"{path}: ")
    assert message.isprintable()
    return message.removeprefix(f"{path}: ")


def packed(path: Path, **members: bytes) -> Path:
    """An archive of these bytes."""
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(f"{name}.npy", content)
    return path


def stored(array: np.ndarray) -> bytes:
    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()


SPARSE = {"X.data": [1.0, 2.0], "X.indices": [0, 1], "X.indptr": [0, 1, 2], "X.shape": [2, 3], "labels": [[1], [0]]}


def test_a_file_is_written_under_a_name_of_any_bytes(tmp_path):
    write_npz(path := tmp_path / "\udcff.npz", a=np.ones(2))
    assert read_npz(path, ["a"])["a"].sum() == 2


class TestOutputs:
    """What is at a path before it is written to."""

    def test_a_link_stays_and_its_target_is_replaced(self, tmp_path):
        target, link, inner = tmp_path / "far/target", tmp_path / "link", tmp_path / "inner"
        target.parent.mkdir()
        target.write_text("before")
        inner.symlink_to("far/target")
        link.symlink_to(inner)
        before = target.stat().st_ino
        write_text(link, "after")
        assert (os.readlink(link), os.readlink(inner)) == (str(inner), "far/target")
        assert target.read_text() == "after"
        assert target.stat().st_ino != before  # replaced at once, not written over
        assert os.listdir(target.parent) == ["target"]

    def test_a_link_to_nothing_gets_its_target(self, tmp_path):
        (tmp_path / "link").symlink_to("target")
        write_text(tmp_path / "link", "new")
        assert (tmp_path / "link").is_symlink()
        assert (tmp_path / "target").read_text() == "new"

    def test_links_in_a_circle_are_an_error(self, tmp_path):
        (tmp_path / "a").symlink_to("b")
        (tmp_path / "b").symlink_to("a")
        with pytest.raises(OSError, match=r"symbolic links: .*/a'"):
            write_text(tmp_path / "a", "")
        assert sorted(os.listdir(tmp_path)) == ["a", "b"]

    @pytest.mark.parametrize("through", ["fifo", "link"])
    def test_a_pipe_stays_one_and_receives_npz(self, tmp_path, through):
        """An archive needs to seek, which a pipe cannot."""
        os.mkfifo(tmp_path / "fifo")
        (tmp_path / "link").symlink_to("fifo")
        received = []
        reader = threading.Thread(target=lambda: received.append((tmp_path / "fifo").read_bytes()), daemon=True)
        reader.start()
        write_npz(tmp_path / through, a=np.arange(3))
        reader.join(10)
        assert stat.S_ISFIFO(os.stat(tmp_path / "fifo").st_mode)
        (tmp_path / "received.npz").write_bytes(received[0])
        assert read_npz(tmp_path / "received.npz", ["a"])["a"].tolist() == [0, 1, 2]

    def test_a_device_is_not_replaced(self, monkeypatch):
        """Nothing here can harm the device: replacing is out of order, and what is written is forgotten."""

        def refused(*paths):
            raise AssertionError

        monkeypatch.setattr(os, "replace", refused)
        assert is_stream(os.devnull)
        write_text(os.devnull, "x")
        assert stat.S_ISCHR(os.stat(os.devnull).st_mode)

    def test_a_disk_is_refused(self, tmp_path, monkeypatch):
        (tmp_path / "disk").write_text("data")
        monkeypatch.setattr(stat, "S_ISBLK", lambda mode: True)
        with pytest.raises(InputError, match="disk is a block device, expected a file, a pipe"):
            write_text(tmp_path / "disk", "")
        assert (tmp_path / "disk").read_text() == "data"

    def test_nothing_goes_down_a_pipe_after_an_error(self, tmp_path):
        os.mkfifo(tmp_path / "fifo")
        with pytest.raises(KeyError), atomic(tmp_path / "fifo"):  # opening the pipe would wait for a reader
            raise KeyError

    @pytest.mark.parametrize(("path", "redirected"), [("-", "out"), ("/dev/stdout", "out"), ("/dev/stderr", "err")])
    def test_a_standard_stream_that_is_a_file_gets_the_bytes_in_order(self, tmp_path, path, redirected):
        """Were the file replaced, what is printed would be lost."""
        code = f"import sys; from drcrm.files import write_text; print('a', file=sys.std{redirected}); "
        code += f"write_text({path!r}, 'b\\n'); print('c', file=sys.std{redirected})"
        with open(tmp_path / "out", "w") as out, open(tmp_path / "err", "w") as err:
            subprocess.run([sys.executable, "-c", code], stdout=out, stderr=err, env=OURS, cwd=tmp_path, check=True)
        assert (tmp_path / redirected).read_text() == "a\nb\nc\n"
        assert sorted(os.listdir(tmp_path)) == ["err", "out"]

    def test_standard_output_that_is_closed(self, tmp_path):
        code = "from drcrm.files import write_text\nwrite_text('-', 'b')"
        command = ["sh", "-c", '"$@" >&-', "sh", sys.executable, "-c", code]
        done = subprocess.run(command, capture_output=True, text=True, env=OURS, cwd=tmp_path, check=False)
        assert done.stderr.splitlines()[-1].endswith("InputError: - is standard output, which is closed")

    def test_permissions_are_those_of_the_file_or_of_umask(self, tmp_path):
        before = os.umask(0o027)
        try:
            write_text(tmp_path / "new", "")
            (tmp_path / "old").write_text("")
            (tmp_path / "old").chmod(0o604)
            write_text(tmp_path / "old", "x")
        finally:
            os.umask(before)
        modes = [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("new", "old")]
        assert modes == [0o640, 0o604]


class TestArrays:
    def test_bytes_after_an_array(self, tmp_path):
        """numpy alone would read two of the three numbers, and not the checksum."""
        content = stored(np.arange(3.0)).replace(b"(3,)", b"(2,)")
        path = packed(tmp_path / "a.npz", coef=content)
        with np.load(path) as archive:
            assert len(archive["coef"]) == 2
        assert fault(read_npz, path, ["coef"]) == "not a readable npz file (more bytes than coef has)"

    def test_a_header_of_more_than_there_is_memory(self, tmp_path):
        content = stored(np.arange(3.0)).replace(b"(3,), }" + b" " * 17, b"(3" + b"0" * 17 + b",), }")
        message = fault(read_npz, packed(tmp_path / "a.npz", coef=content), ["coef"])
        assert message.startswith("not a readable npz file (")

    @pytest.mark.parametrize(("at", "value"), [(4, 0xFF), (8, 0x63), (6, 0x01)])
    def test_an_archive_in_a_way_that_is_unknown(self, tmp_path, at, value):
        """A version, a method of compression, a password."""
        path = packed(tmp_path / "a.npz", coef=stored(np.ones(1)))
        content = bytearray(path.read_bytes())
        content[content.index(b"PK\x01\x02") + at + 2] = value
        path.write_bytes(content)
        assert fault(read_npz, path, ["coef"]).startswith("not a readable npz file (")

    @pytest.mark.parametrize(
        ("parts", "message"),
        [
            ({"X.indices": [0.5, 1.0]}, "X is not a CSR matrix: its indices, indptr or shape are not whole numbers"),
            ({"X.shape": [2.0, 1e19]}, "X is not a CSR matrix: its indices, indptr or shape are not whole numbers"),
            ({"X.indptr": [0, 1, 1]}, "X is not a CSR matrix: its indptr has 1 of 2 values"),
            ({"X.data": [1j, 2]}, "X is not an array of numbers, but of complex128"),
            ({"X.indptr": None}, "not a readable npz file (\"There is no item named 'X.indptr.npy' in the archive\")"),
            ({"labels": 1.0}, "labels has shape (), expected (rows, labels)"),
        ],
    )
    def test_a_sparse_matrix_that_is_none(self, tmp_path, parts, message):
        path = tmp_path / "a.npz"
        arrays = {name: np.asarray(value) for name, value in (SPARSE | parts).items() if value is not None}
        np.savez(path, **arrays)
        assert fault(read_contexts, path) == message


@pytest.mark.parametrize(
    ("train", "message"),
    [
        (1, "context has shape (), expected (1,)"),
        ([], "no contexts in 'train', expected at least one"),
        ([[0]], "context has shape (1, 1), expected (1,)"),
        ([1e19], "context is 1e+19 in row 0, expected a whole number of less than 16 digits"),
        ([5], "context is 5 in row 0, expected a row of X, 0 to 4"),
    ],
)
def test_a_split_that_is_none(tmp_path, train, message):
    write_npz(tmp_path / "a.npz", logging=[0], train=np.asarray(train), heldout=[1])
    assert fault(read_split, tmp_path / "a.npz", 5) == message


@pytest.mark.parametrize("read", [read_policy, read_cost_model])
@pytest.mark.parametrize(
    ("coef", "message"),
    [
        (np.zeros((0, 2)), "coef has shape (0, 2), expected (rows, features) with at least one of each"),
        (np.full((1, 2), np.nan), "coef has nan in row 0, column 0, expected finite features"),
        (np.ones((1, 2), dtype=complex), "coef is not an array of numbers, but of complex128"),
        (np.zeros((1, 2), dtype=[("a", "f8")]), "coef is not an array of numbers, but of void64"),
    ],
)
def test_coefficients_that_are_none(tmp_path, read, coef, message):
    write_npz(tmp_path / "a.npz", coef=coef)
    assert fault(read, tmp_path / "a.npz") == message


FITS = {
    "grid": [0.1, 1.0],
    "ridge": [0.0, 1e-3],
    "step": [1.0, 0.5],
    "coef": np.zeros((2, 3, 4)),
    "iterations": [1, 2],
    "converged": [True, False],
    "scores": np.full((2, 3), np.nan),
    "chosen": [0, 1, -1],
    "tilt": [np.nan],
}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"grid": [0.1]}, "grid has 1 values, coef has shape (2, 3, 4), expected one (d, q) for each"),
        ({"grid": 0.1}, "grid has 1 values, coef has shape (2, 3, 4), expected one (d, q) for each"),
        ({"grid": [[0.1, 1]]}, "grid has shape (1, 2), expected (2,)"),
        ({"grid": ["a", "b"]}, "grid is not an array of numbers, but of text such as 'a'"),
        ({"coef": np.zeros((2, 3))}, "grid has 2 values, coef has shape (2, 3), expected one (d, q) for each"),
        ({"coef": np.full((2, 3, 4), np.inf)}, "coef has inf in row 0, column 0, expected finite features"),
        ({"iterations": [np.inf, 1]}, "iterations is inf in row 0, expected a finite number"),
        ({"converged": [True]}, "converged has shape (1,), expected (2,)"),
        ({"converged": [2, 0]}, "converged has 2 in row 0, label 0, expected 0 or 1"),
        ({"scores": np.zeros((2, 2))}, "scores has shape (2, 2), expected (2, 3)"),
        ({"chosen": [0, 1, 2]}, "chosen is 2 in row 2, expected -1 to 1"),
        ({"tilt": 1.0}, "tilt has shape (), expected (1,)"),
        ({"ridge": [0.0]}, "ridge has shape (1,), expected (2,)"),
        ({"features": "nystroem"}, "features is 'nystroem', expected a feature map as JSON"),
    ],
)
def test_fits_that_are_none(tmp_path, change, message):
    np.savez(tmp_path / "a.npz", **FITS)
    assert read_fits(tmp_path / "a.npz", 3)["chosen"].tolist() == [0, 1, -1]
    np.savez(tmp_path / "a.npz", **{**FITS, **change})
    assert fault(read_fits, tmp_path / "a.npz", 3) == message
