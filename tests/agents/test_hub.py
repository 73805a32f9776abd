"""Policies on the Hugging Face hub: pushed and used against a hub on this machine; only JSON and numbers are read."""

import os
import shutil
import socket
import subprocess
import time
from pathlib import Path

import pytest

from orbitcc.agents import checkpoint
from tests.agents import hub_server
from tests.commands.shell import called, orbitcc

pytest.importorskip("huggingface_hub")

MINE = "someone/mine"


@pytest.fixture
def hub(tmp_path: Path):
    """Calls the command with a hub on this machine; the library reads its settings when it is imported."""
    with hub_server.running() as (address, served):
        settings = {"HF_ENDPOINT": address, "HF_HOME": str(tmp_path / "hf"), "HF_TOKEN": "hf_test"}

        def call(*words: str, **more: str) -> subprocess.CompletedProcess[str]:
            return orbitcc(*words, env={**os.environ, **settings, **more}, cwd=tmp_path)

        call.served = served  # type: ignore[attr-defined]
        yield call


def _run(hub, policy: str, **more: str):
    return hub("run", "dumbbell", "--set", "duration_s=2", "--policy", policy, "--json", **more)


def test_a_policy_is_pushed_and_used_by_another(hub, tmp_path) -> None:
    pushed = hub("policy", "push", "perigee", MINE, "--use", "On LEO paths.", "--weakness", "It yields.")
    assert pushed.returncode == 0, pushed.stderr
    files = hub.served.repositories[MINE]
    assert sorted(files) == ["README.md", "card.json", "policy.safetensors", "run.png"]
    page = files["README.md"].decode()
    assert page.startswith("---\nlibrary_name: orbitcc\n")
    for words in ("**When to use it.** On LEO paths.", "It yields.", "(run.png)", f"--policy hf:{MINE}"):
        assert words in page
    assert files["run.png"].startswith(b"\x89PNG")

    files |= {"evil.py": b"raise SystemExit", "pytorch_model.bin": b"\x80\x04"}
    used = _run(hub, f"hf:{MINE}")
    assert used.returncode == 0, used.stderr
    theirs = _run(hub, "perigee")
    assert used.stdout.replace("mine", "perigee").count("goodput") == theirs.stdout.count("goodput")
    fetched = {path.name for path in (tmp_path / "hf").rglob("*") if path.is_symlink() or path.suffix}
    assert {"card.json", "policy.safetensors"} <= fetched
    assert not fetched & {"evil.py", "pytorch_model.bin", "README.md"}

    before = hub.served.requests
    offline = _run(hub, f"hf:{MINE}", HF_HUB_OFFLINE="1")
    assert offline.returncode == 0, offline.stderr
    assert hub.served.requests == before
    gone = _run(hub, f"hf:{MINE}", HF_ENDPOINT="http://127.0.0.1:1")  # nobody answers: the cache does
    assert gone.returncode == 0, gone.stderr
    assert f"warning: hf:{MINE}: the hub does not answer" in gone.stderr
    assert offline.stderr == ""
    listed = hub("eval", "rate-step", "--runs", "1", "--policy", f"hf:{MINE}", "--controller", "cubic", "--json")
    assert listed.returncode == 0, listed.stderr
    assert '"contender": "perigee"' in listed.stdout


def test_what_is_no_policy_is_one_line(hub, tmp_path) -> None:
    cases = {
        "hf:someone/none": "hub",
        "hf:nobody": "OWNER/NAME",
        "hf:../etc": "OWNER/NAME",
        f"hf:{MINE}": "policy.safetensors is missing",
    }
    hub.served.repositories[MINE] = {"card.json": (checkpoint.SHIPPED / "perigee" / "card.json").read_bytes()}
    for name, says in cases.items():
        done = _run(hub, name)
        assert (done.returncode, len(done.stderr.strip().splitlines())) == (2, 1), done.stderr
        assert says in done.stderr
    hub.served.repositories[MINE]["policy.safetensors"] = b"\0" * 100
    done = _run(hub, f"hf:{MINE}")
    assert done.returncode == 2
    assert "SHA-256" in done.stderr
    nobody = _run(hub, "hf:someone/else", HF_HUB_OFFLINE="1")
    assert (nobody.returncode, len(nobody.stderr.strip().splitlines())) == (2, 1), nobody.stderr


def test_a_hub_that_says_nothing_is_not_waited_for(hub) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:  # accepts, and never answers
        address = f"http://127.0.0.1:{silent.getsockname()[1]}"
        for words in (("policy", "verify", f"hf:{MINE}"), ("policy", "push", "perigee", MINE)):
            began = time.monotonic()
            done = hub(*words, HF_ENDPOINT=address)
            assert done.returncode == 2
            assert "error: " in done.stderr
            assert done.stderr.count("\n") == 1
            assert "Timeout" in done.stderr
            assert time.monotonic() - began < 60


def test_a_damaged_checkpoint_is_not_pushed(hub, tmp_path) -> None:
    folder = Path(shutil.copytree(checkpoint.SHIPPED / "perigee", tmp_path / "damaged"))
    (folder / "policy.safetensors").write_bytes(b"")
    assert hub("policy", "push", str(folder), MINE).returncode == 2
    assert hub.served.requests == 0


def test_without_the_library_it_says_what_to_install(monkeypatch) -> None:
    from orbitcc.agents import hub as module

    monkeypatch.setattr(module, "find_spec", lambda name: None)
    done = called("run", "dumbbell", "--policy", "hf:someone/other")
    assert done.returncode == 2
    assert "the library huggingface_hub: the extra `hub`" in done.stderr


def test_the_readmes_of_shipped_policies_are_those_of_their_cards() -> None:
    from benches import zoo

    for name in checkpoint.shipped():
        assert (checkpoint.SHIPPED / name / "README.md").read_text(encoding="utf-8") == zoo.readme(name)
        assert (checkpoint.SHIPPED / name / "run.png").stat().st_size < 60_000
