import os
import stat
import struct
import time
import zipfile

import numpy as np
import pytest

from orbitcc.common import files
from orbitcc.common.errors import FileError
from orbitcc.common.files import atomic_write_bytes, atomic_write_text, read_text, read_toml, toml_text


def test_a_file_is_written_with_its_folders_and_leaves_nothing_else(tmp_path):
    path = atomic_write_text(tmp_path / "a" / "b.txt", "é\n")
    assert path.read_text(encoding="utf-8") == "é\n"
    assert [p.name for p in path.parent.iterdir()] == ["b.txt"]
    assert stat.S_IMODE(path.stat().st_mode) & 0o400


@pytest.mark.parametrize(
    ("raised", "seen"), [(OSError(28, "No space left on device"), FileError), (KeyboardInterrupt(), KeyboardInterrupt)]
)
def test_a_write_that_fails_or_is_interrupted_keeps_the_old_file(tmp_path, monkeypatch, raised, seen):
    path = atomic_write_bytes(tmp_path / "x", b"old")

    def fail(*_):
        raise raised

    monkeypatch.setattr("os.replace", fail)
    with pytest.raises(seen, match="No space left" if seen is FileError else None):
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


def test_what_is_no_regular_file_is_refused_at_once(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "zero").symlink_to("/dev/zero")
    for name in ("pipe", "zero", "."):
        with pytest.raises(FileError, match="a readable file"):
            files.read_bytes(tmp_path / name)
    with pytest.raises(FileError, match="null byte"):
        read_text("a\0b")
    with pytest.raises(FileError, match="File name too long"):
        read_text("a" * 5_000)


def test_a_file_that_is_too_large_is_not_read(tmp_path):
    with (tmp_path / "sparse").open("wb") as file:
        file.truncate(20_000_000_000)
    with pytest.raises(FileError, match=r"at most 4 MB \(it has 20,000.0 MB\)"):
        read_text(tmp_path / "sparse")
    (tmp_path / "five").write_bytes(b"12345")
    assert files.read_bytes(tmp_path / "five", 5) == b"12345"
    with pytest.raises(FileError, match="at most"):
        files.read_bytes(tmp_path / "five", 4)


def npz(path, name, header, data=b"", **options):
    text = repr(header).encode().ljust(117) + b"\n"
    with zipfile.ZipFile(path, "w", **options) as packed:
        packed.writestr(name, b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + data)
    return path


def test_arrays_come_back_as_numpy_wrote_them(tmp_path):
    arrays = {
        "a": np.arange(6.0).reshape(2, 3), "text": np.array("né"), "columns": np.asfortranarray(np.ones((3, 2))),
        "none": np.zeros((0, 3)), "flags": np.array([True, False]),
    }  # fmt: skip
    for save in (np.savez, np.savez_compressed):
        save(tmp_path / "a.npz", **arrays)
        found = files.load_arrays(tmp_path / "a.npz", arrays)
        assert list(found) == list(arrays)
        for name, array in arrays.items():
            np.testing.assert_array_equal(found[name], array)
            assert found[name].dtype == array.dtype


def test_arrays_that_are_larger_than_allowed_are_not_unpacked(tmp_path):
    huge = {"descr": "<f8", "fortran_order": False, "shape": (10**12,)}
    with zipfile.ZipFile(tmp_path / "bomb.npz", "w", zipfile.ZIP_DEFLATED) as packed, packed.open("x.npy", "w") as file:
        for _ in range(1_100):
            file.write(bytes(1_000_000))
    with zipfile.ZipFile(tmp_path / "many.npz", "w") as packed:
        for number in range(1_001):
            packed.writestr(f"{number}.npy", b"")
    np.savez(tmp_path / "objects.npz", x=np.array([object()]))
    npz(tmp_path / "header.npz", "x.npy", huge)
    npz(tmp_path / "lzma.npz", "x.npy", {**huge, "shape": (1,)}, bytes(8), compression=zipfile.ZIP_LZMA)
    npz(tmp_path / "short.npz", "x.npy", {**huge, "shape": (1,)}, bytes(16))
    reasons = {
        "bomb": "at most 1,000 MB", "many": "more than 1,000", "objects": "objects", "header": "larger than its file",
        "lzma": "packed in a way", "short": "not as large",
    }  # fmt: skip
    for name, reason in reasons.items():
        began = time.process_time()
        with pytest.raises(FileError, match=reason):
            files.load_arrays(tmp_path / f"{name}.npz", {"x"})
        assert time.process_time() - began < 2.0, name
    assert not files.load_arrays(tmp_path / "bomb.npz", {"y"})  # what is not known is not unpacked


@pytest.mark.parametrize(
    "text", ["NaN", "[1e999]", "9" * 400, "9" * 5_000, "[" * 100_000, r'"\ud800"', '"\ud800"', b"\xff", "{", ""]
)
def test_what_is_not_json_is_a_value_error(text):
    with pytest.raises(ValueError, match="."):
        files.parse_json(text)


def test_json_is_read_and_what_python_writes_on_request():
    assert files.parse_json(r'{"a": ["\ud83d\ude00", -9223372036854775808, 0.5, null]}') == {
        "a": ["😀", -(2**63), 0.5, None]
    }
    assert files.parse_json(f"[-Infinity, {2**100}]", own=True) == [float("-inf"), 2**100]


@pytest.mark.parametrize("place", ["/", "."])
def test_a_folder_is_no_place_for_a_file(place):
    with pytest.raises(FileError, match="a file, not a folder"):
        files.check_place(place)
