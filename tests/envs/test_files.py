import stat

import pytest

from orbitcc.envs.errors import FileError
from orbitcc.envs.files import atomic_write_bytes, atomic_write_text, read_text, read_toml, toml_text


def test_a_file_is_written_with_its_folders_and_leaves_nothing_else(tmp_path):
    path = atomic_write_text(tmp_path / "a" / "b.txt", "é\n")
    assert path.read_text(encoding="utf-8") == "é\n"
    assert [p.name for p in path.parent.iterdir()] == ["b.txt"]
    assert stat.S_IMODE(path.stat().st_mode) & 0o400


def test_a_failed_write_keeps_the_old_file(tmp_path, monkeypatch):
    path = atomic_write_bytes(tmp_path / "x", b"old")

    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", fail)
    with pytest.raises(FileError, match="No space left"):
        atomic_write_bytes(path, b"new")
    assert path.read_bytes() == b"old"
    assert [p.name for p in tmp_path.iterdir()] == ["x"]


def test_a_folder_that_is_a_file_is_one_clear_error(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(FileError, match=r"file/below.*writable"):
        atomic_write_text(tmp_path / "file" / "below", "x")


def test_unreadable_content_is_named(tmp_path):
    with pytest.raises(FileError, match="no such file"):
        read_text(tmp_path / "none")
    (tmp_path / "bytes").write_bytes(b"\xff\xfe")
    with pytest.raises(FileError, match="UTF-8"):
        read_text(tmp_path / "bytes")
    (tmp_path / "bad.toml").write_text("a = [")
    with pytest.raises(FileError, match="TOML"):
        read_toml(tmp_path / "bad.toml")


def test_toml_leaves_out_none():
    assert toml_text({"a": None, "b": [{"c": None, "d": 1}]}).split() == ["b", "=", "[", "{", "d", "=", "1", "},", "]"]
