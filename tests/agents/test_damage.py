"""Damaged checkpoints and states: every changed bit is found, and nothing that is read can run code."""

import json
import os
import random
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from orbitcc.agents import checkpoint
from orbitcc.agents.runs import plain_state, seal
from orbitcc.agents.runs.folders import temporary
from orbitcc.common.errors import OrbitccError
from tests.commands.shell import called

FLIPS = 200


def flipped(path: Path, rng: random.Random) -> None:
    """Change one bit of a file."""
    data = bytearray(path.read_bytes())
    data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    path.write_bytes(data)


@pytest.mark.parametrize("name", ["policy.safetensors", "card.json"])
@pytest.mark.parametrize("policy", ["perigee", "zenith", "zenith-rllib", "apogee", "astraea"])
def test_one_changed_bit_anywhere_is_found(policy: str, name: str, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(checkpoint.SHIPPED / policy, tmp_path / policy))
    rng = random.Random(f"{policy} {name}")
    sound = (folder / name).read_bytes()
    for _ in range(FLIPS):
        flipped(folder / name, rng)
        with pytest.raises(OrbitccError, match=name):
            checkpoint.load(folder)
        (folder / name).write_bytes(sound)
    checkpoint.load(folder)


def test_verify_and_seal_are_commands(tmp_path: Path) -> None:
    folder = Path(shutil.copytree(checkpoint.SHIPPED / "perigee", tmp_path / "mine"))
    sound = called("policy", "verify", str(folder))
    assert (sound.returncode, "intact" in sound.stdout) == (0, True)
    card = folder / "card.json"
    card.write_text(card.read_text(encoding="utf-8").replace('"description": "', '"description": "my own: '))
    changed = called("policy", "verify", str(folder))
    assert (changed.returncode, len(changed.stderr.splitlines())) == (2, 1)
    assert "card.json" in changed.stderr
    assert "orbitcc policy seal" in changed.stderr
    assert called("policy", "seal", str(folder)).returncode == 0
    assert called("policy", "verify", str(folder)).returncode == 0
    assert checkpoint.load(folder).card.description.startswith("my own: ")
    assert (folder / checkpoint.WEIGHTS).read_bytes() == (
        checkpoint.SHIPPED / "perigee" / checkpoint.WEIGHTS
    ).read_bytes()


def test_plain_state_comes_back_with_equal_types(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    value = {
        "rng": np.random.default_rng(3).bit_generator.state,
        7: [1, 2.5, None, True, "text", (1, (2.0,)), 0.1 + 0.2, float("inf"), 2**127],
        "array": np.arange(6, dtype=np.float32).reshape(2, 3),
        "flags": np.array([True, False]),
        "scalar": np.float64(0.1),
        "step": torch.tensor(5.0),
        "empty": np.zeros((0, 3), np.float32),
        "turned": np.arange(6.0).reshape(2, 3).T,
    }
    plain_state.write(tmp_path, "state", value)
    back = plain_state.read(tmp_path, "state")
    assert list(back) == list(value)
    assert (back["rng"], back[7], back["scalar"]) == (value["rng"], value[7], 0.1)
    for name in ("array", "flags", "empty", "turned"):
        assert back[name].dtype == value[name].dtype
        assert np.array_equal(back[name], value[name])
    assert torch.equal(back["step"], value["step"])
    assert isinstance(back["step"], torch.Tensor)


def checked(folder: Path) -> None:
    seal.check(folder)
    seal.check_owner(folder, "run")


@pytest.fixture
def sealed(tmp_path: Path) -> Path:
    folder = tmp_path / "state"
    (folder / "deep").mkdir(parents=True)
    (folder / "deep" / "buffer.pkl").write_bytes(b"\x80\x04N.")
    plain_state.write(folder, "learner", {"a": np.arange(9)})
    seal.seal(folder)
    return folder


def test_every_damaged_missing_or_added_file_of_a_state_is_named(sealed: Path) -> None:
    checked(sealed)
    rng = random.Random(1)
    for path in [path for path in sealed.rglob("*") if path.is_file()]:
        sound = path.read_bytes()
        for _ in range(20):
            flipped(path, rng)
            with pytest.raises(OrbitccError):  # a flip in the seal may name another file, or spoil the signature
                checked(sealed)
            path.write_bytes(sound)
        path.unlink()
        with pytest.raises(OrbitccError, match=path.name):
            seal.check(sealed)
        path.write_bytes(sound)
    (sealed / "worlds.pkl").write_bytes(b"planted")
    with pytest.raises(OrbitccError, match=r"worlds\.pkl"):
        seal.check(sealed)


def test_the_key_is_private_and_another_key_signs_differently(sealed: Path, tmp_path, monkeypatch) -> None:
    assert seal.key_file().stat().st_mode & 0o777 == 0o600
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "other"))
    with pytest.raises(OrbitccError, match="--trust mine"):
        seal.check_owner(sealed, "mine")  # no key at all
    seal.seal(sealed)
    seal.check_owner(sealed, "mine")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "third"))
    seal.seal(sealed.parent)  # makes a third key
    with pytest.raises(OrbitccError, match="--trust mine"):
        seal.check_owner(sealed, "mine")


def test_without_a_place_for_a_key_nothing_is_signed(sealed: Path, tmp_path, monkeypatch) -> None:
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "file"))
    seal.seal(sealed)
    assert json.loads((sealed / seal.SEAL).read_text(encoding="utf-8"))["signature"] == ""
    seal.check(sealed)
    with pytest.raises(OrbitccError, match="--trust"):
        seal.check_owner(sealed, "mine")


def test_a_reader_sees_one_version_while_another_process_saves(tmp_path: Path) -> None:
    folder = tmp_path / "busy"
    shutil.copytree(checkpoint.SHIPPED / "perigee", folder)
    card, tensors = checkpoint.read(folder)
    (last,) = [name for name in tensors if name == f"layers.{len(card.layers) - 1}.bias"]
    for number in range(2):  # the description says which weights belong to it
        shutil.rmtree(tmp_path / str(number), ignore_errors=True)
        changed = {**tensors, last: np.full_like(tensors[last], number)}
        checkpoint.save(tmp_path / str(number), card.model_copy(update={"description": str(number)}), changed)
    code = (
        "import sys; from pathlib import Path; from orbitcc.agents import checkpoint\n"
        "folder, *others = map(Path, sys.argv[1:])\n"
        "versions = [checkpoint.read(other) for other in others]\n"
        "while True:\n"
        "    for version in versions: checkpoint.save(folder, *version)\n"
    )
    words = [str(folder), str(tmp_path / "0"), str(tmp_path / "1")]
    with subprocess.Popen([sys.executable, "-c", code, *words]) as writer:
        try:
            while checkpoint.read(folder)[0].description == card.description:
                assert writer.poll() is None
            seen = set()
            for _ in range(1000):
                card, tensors = checkpoint.read(folder)
                assert (tensors[last] == int(card.description)).all()
                seen.add(card.description)
            assert seen == {"0", "1"}
        finally:
            writer.kill()


@pytest.mark.parametrize("seals", [
    '{"files": [], "signature": []}', '{"files": {"a": 1}, "signature": ""}', "[" * 50_000, "5",
    r'{"files": {"\ud800": "x"}, "signature": "\ud800"}',
])  # fmt: skip
def test_a_seal_of_other_types_is_one_line(seals: str, tmp_path: Path) -> None:
    (tmp_path / "seal.json").write_text(seals)
    for use in (lambda: seal.check(tmp_path), lambda: seal.check_owner(tmp_path, "run")):
        with pytest.raises(OrbitccError, match=r"seal\.json") as caught:
            use()
        assert len(str(caught.value).splitlines()) == 1


def test_the_folder_of_a_killed_process_is_removed_and_that_of_a_live_one_stays(tmp_path: Path) -> None:
    script = (
        "import sys, time; from pathlib import Path; from orbitcc.agents.runs.folders import temporary\n"
        "with temporary(Path(sys.argv[1]), 'orbitcc-x-') as folder: print(folder, flush=True); time.sleep(600)"
    )
    words = [sys.executable, "-c", script, str(tmp_path)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        folder = Path(process.stdout.readline().strip())
        os.utime(folder, (1, 1))
        with temporary(tmp_path, "orbitcc-x-"):
            assert folder.is_dir()
        process.kill()
    with temporary(tmp_path, "orbitcc-x-") as mine:
        assert not folder.exists()
        assert mine.is_dir()
    assert list(tmp_path.iterdir()) == []
