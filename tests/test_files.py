"""Writing files, links, pipes and streams; damaged npz files; errors of damaged bytes."""

import os
import stat
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from fixtures.user_input import refusal

import drcrm
from drcrm.errors import InputError, refuse_errors
from drcrm.files import read_npz, write_npz, write_text

ENVIRONMENT = os.environ | {"PYTHONPATH": str(Path(drcrm.__file__).parents[1])}  # for processes in other folders


def test_errors_name_the_file_and_not_its_temporary_folder():
    with pytest.raises(OSError, match="/proc/output") as error:
        write_text("/proc/output", "")
    assert error.value.filename == "/proc/output"


def test_the_target_of_a_link_is_replaced(tmp_path):
    target, link, inner = tmp_path / "far/target", tmp_path / "link", tmp_path / "inner"
    target.parent.mkdir()
    target.write_text("before")
    inner.symlink_to("far/target")
    link.symlink_to(inner)
    before = target.stat().st_ino
    write_text(link, "after")
    assert (os.readlink(link), os.readlink(inner)) == (str(inner), "far/target")
    assert target.read_text() == "after"
    assert target.stat().st_ino != before, "the file is replaced, not overwritten"
    assert os.listdir(target.parent) == ["target"]


@pytest.mark.parametrize("through", ["fifo", "link"])
def test_a_pipe_receives_an_archive(tmp_path, through):
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


@pytest.mark.parametrize(("path", "redirected"), [("-", "out"), ("/dev/stderr", "err")])
def test_a_redirected_standard_stream_gets_the_bytes_in_order(tmp_path, path, redirected):
    """Replacing the file would lose the printed lines."""
    code = f"import sys; from drcrm.files import write_text; print('a', file=sys.std{redirected}); "
    code += f"write_text({path!r}, 'b\\n'); print('c', file=sys.std{redirected})"
    with open(tmp_path / "out", "w") as out, open(tmp_path / "err", "w") as err:
        subprocess.run([sys.executable, "-c", code], stdout=out, stderr=err, env=ENVIRONMENT, cwd=tmp_path, check=True)
    assert (tmp_path / redirected).read_text() == "a\nb\nc\n"
    assert sorted(os.listdir(tmp_path)) == ["err", "out"]


def test_a_file_keeps_its_permissions_and_a_new_file_follows_umask(tmp_path):
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


@pytest.mark.parametrize("content", [None, "folder", b"", b"dataset,seed\n"])
def test_a_path_that_is_no_archive_is_rejected(tmp_path, content):
    path = tmp_path / "a.npz"
    if content == "folder":
        path.mkdir()
    elif content is not None:
        path.write_bytes(content)
    expected = "no such file" if content is None else "not a readable npz file: "
    assert refusal(read_npz, path, ["coef"]).startswith(f"{path}: {expected}")


@pytest.mark.parametrize("error", [MemoryError("out of memory"), InputError("row 3 is invalid")])
def test_memory_errors_and_input_errors_pass(error):
    with pytest.raises(type(error)) as caught, refuse_errors("log.npz is damaged"):
        raise error
    assert caught.value is error


def test_other_errors_become_input_errors_with_their_reason():
    for error, reason in ((KeyError("rows"), "'rows'"), (ZeroDivisionError(), "ZeroDivisionError")):
        with pytest.raises(InputError, match=f"^log.npz is damaged: {reason}$"), refuse_errors("log.npz is damaged"):
            raise error
