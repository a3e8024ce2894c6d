"""Writing files, links, pipes and streams; damaged npz files."""

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
from drcrm.files import LOCK, atomic, is_stream, read_npz, remove, write_npz, write_text

ENVIRONMENT = os.environ | {"PYTHONPATH": str(Path(drcrm.__file__).parents[1])}  # for processes in other folders


def error_of(read, path: Path, *arguments) -> str:
    """Return the error message of reading a file, without the path in front."""
    with pytest.raises(InputError) as error:
        read(path, *arguments)
    message = str(error.value)
    assert message.startswith(f"{path}: ")
    assert message.isprintable()
    return message.removeprefix(f"{path}: ")


def write_archive(path: Path, **members: bytes) -> Path:
    """Write an archive with these bytes as members."""
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(f"{name}.npy", content)
    return path


def npy_bytes(array: np.ndarray) -> bytes:
    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()


def test_errors_name_the_file_and_not_its_temporary_folder():
    with pytest.raises(OSError, match="/proc/output") as error:
        write_text("/proc/output", "")
    assert error.value.filename == "/proc/output"


def test_a_file_name_may_have_any_bytes(tmp_path):
    write_npz(path := tmp_path / "\udcff.npz", a=np.ones(2))
    assert read_npz(path, ["a"])["a"].sum() == 2


class TestOutputs:
    """Writing to a path at which there is a file, a link, a pipe or a stream."""

    def test_the_target_of_a_link_is_replaced(self, tmp_path):
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

    def test_the_target_of_a_link_is_removed_and_a_pipe_stays(self, tmp_path):
        (tmp_path / "target").touch()
        (tmp_path / "link").symlink_to("target")
        os.mkfifo(tmp_path / "fifo")
        for name in ("link", "fifo", "missing", "-"):
            remove(tmp_path / name if name != "-" else name)
        assert sorted(path.name for path in tmp_path.iterdir()) == ["fifo", "link"]
        assert not (tmp_path / "link").exists()

    def test_a_dangling_link_gets_a_target(self, tmp_path):
        (tmp_path / "link").symlink_to("target")
        write_text(tmp_path / "link", "new")
        assert (tmp_path / "link").is_symlink()
        assert (tmp_path / "target").read_text() == "new"

    @pytest.mark.parametrize("through", ["fifo", "link"])
    def test_a_pipe_receives_an_archive(self, tmp_path, through):
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

    def test_a_character_device_is_not_replaced(self, monkeypatch):

        def refuse(*paths):
            raise AssertionError

        monkeypatch.setattr(os, "replace", refuse)
        assert is_stream(os.devnull)
        write_text(os.devnull, "x")
        assert stat.S_ISCHR(os.stat(os.devnull).st_mode)

    def test_a_pipe_receives_nothing_after_an_error(self, tmp_path):
        os.mkfifo(tmp_path / "fifo")
        with pytest.raises(KeyError), atomic(tmp_path / "fifo"):  # opening the pipe would wait for a reader
            raise KeyError

    @pytest.mark.parametrize(("path", "redirected"), [("-", "out"), ("/dev/stderr", "err")])
    def test_a_redirected_standard_stream_gets_the_bytes_in_order(self, tmp_path, path, redirected):
        """Replacing the file would lose the printed lines."""
        code = f"import sys; from drcrm.files import write_text; print('a', file=sys.std{redirected}); "
        code += f"write_text({path!r}, 'b\\n'); print('c', file=sys.std{redirected})"
        with open(tmp_path / "out", "w") as out, open(tmp_path / "err", "w") as err:
            subprocess.run(
                [sys.executable, "-c", code], stdout=out, stderr=err, env=ENVIRONMENT, cwd=tmp_path, check=True
            )
        assert (tmp_path / redirected).read_text() == "a\nb\nc\n"
        assert sorted(os.listdir(tmp_path)) == ["err", "out"]

    def test_closed_standard_output_is_an_error(self, tmp_path):
        code = "from drcrm.files import write_text\nwrite_text('-', 'b')"
        command = ["sh", "-c", '"$@" >&-', "sh", sys.executable, "-c", code]
        process = subprocess.run(command, capture_output=True, text=True, env=ENVIRONMENT, cwd=tmp_path, check=False)
        assert process.stderr.splitlines()[-1].endswith("InputError: - is standard output, which is closed")

    def test_a_file_keeps_its_permissions_and_a_new_file_follows_umask(self, tmp_path):
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


WRITE = "import drcrm.files\nwith drcrm.files.atomic('out') as path:\n  path.write_text('child')"
OPEN = "from pathlib import Path\nfrom drcrm.diagnostics.opened_log import log_folder\n"
OPEN += "with log_folder(Path('log.csv')) as create:\n  path = create() / 'X.npy'\n  path.write_text('')"


@pytest.mark.parametrize("script", [WRITE, OPEN], ids=["output", "scratch"])
class TestTemporaryFolders:
    """Temporary folders that another user of the working folder finds. Process ids and host names do not matter."""

    def use(self, script: str, inside=Path.exists) -> None:
        """Create a temporary folder in the working folder, and call a function with the path of a file in it."""
        exec(f"{script}\n  inside(path)", {"inside": inside})

    def test_a_folder_in_use_is_kept(self, script, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)

        def use_again(path: Path) -> None:
            self.use(script)
            assert path.exists()

        self.use(script, use_again)
        assert os.listdir(tmp_path) == (["out"] if script == WRITE else [])

    def test_the_folder_of_a_killed_process_is_removed(self, script, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        waiting = [sys.executable, "-c", f"{script}\n  print(flush=True)\n  input()"]
        pipes = dict.fromkeys(("stdin", "stdout"), subprocess.PIPE)
        with subprocess.Popen(waiting, env=ENVIRONMENT, text=True, **pipes) as child:
            child.stdout.readline()
            child.kill()
        assert len(os.listdir(tmp_path)) == 1
        self.use(script)
        assert os.listdir(tmp_path) == (["out"] if script == WRITE else [])

    def test_a_folder_without_a_lock_is_removed_after_a_day(self, script, tmp_path, monkeypatch):
        """A process creates its folder before the lock."""
        monkeypatch.chdir(tmp_path)

        def age(path: Path) -> None:
            [folder] = tmp_path.iterdir()
            (folder / LOCK).unlink()
            self.use(script)
            assert path.exists()
            os.utime(folder, (0, 0))
            self.use(script)
            assert not folder.exists()
            path.parent.mkdir(parents=True)
            path.touch()  # so that the first user can end

        self.use(script, age)


class TestDamagedArchives:
    @pytest.mark.parametrize("content", [None, "folder", b"", b"dataset,seed\n"])
    def test_a_path_that_is_no_archive_is_rejected(self, tmp_path, content):
        path = tmp_path / "a.npz"
        if content == "folder":
            path.mkdir()
        elif content is not None:
            path.write_bytes(content)
        expected = "no such file" if content is None else "not a readable npz file: "
        assert error_of(read_npz, path, ["coef"]).startswith(expected)

    def test_extra_bytes_after_an_array_are_rejected(self, tmp_path):
        """numpy would read two of the three numbers without checking the checksum."""
        content = npy_bytes(np.arange(3.0)).replace(b"(3,)", b"(2,)")
        path = write_archive(tmp_path / "a.npz", coef=content)
        with np.load(path) as archive:
            assert len(archive["coef"]) == 2
        assert error_of(read_npz, path, ["coef"]) == "not a readable npz file: more bytes than coef has"

    def test_a_header_of_more_than_the_memory_is_rejected(self, tmp_path):
        content = npy_bytes(np.arange(3.0)).replace(b"(3,), }" + b" " * 17, b"(3" + b"0" * 17 + b",), }")
        message = error_of(read_npz, write_archive(tmp_path / "a.npz", coef=content), ["coef"])
        assert message.startswith("not a readable npz file: ")
