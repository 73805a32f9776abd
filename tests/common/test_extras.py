"""What is optional is asked for with the same words everywhere, which are true in a checkout and for a wheel."""

import re
import tomllib
from pathlib import Path

import pytest

from orbitcc.agents.data import minari
from orbitcc.common.errors import OrbitccError
from orbitcc.common.extras import installing

ROOT = Path(__file__).parents[2]
PACKAGES = ("agents", "baselines", "common", "emulator", "envs", "eval", "orbitcc/commands", "parallel", "training")


def sources():
    return {path: path.read_text(encoding="utf-8") for name in PACKAGES for path in (ROOT / name).rglob("*.py")}


def test_messages_name_extras_that_exist():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    named = {name for text in sources().values() for name in re.findall(r"installing\('(\w+)'\)", text)}
    assert named == {"train", "search", "data", "emulation", "hub", "tle"} <= set(extras)


def test_no_message_has_words_of_its_own():
    own = [path.relative_to(ROOT).as_posix() for path, text in sources().items() if "pip install" in text]
    assert own == ["common/extras.py"]


def test_a_missing_extra_is_told_for_a_checkout_and_for_pip(monkeypatch):
    assert installing("train") == "the extra `train` (in a checkout: make full; with pip: pip install 'orbitcc[train]')"
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(OrbitccError, match=r"make full; with pip: pip install 'orbitcc\[data\]'"):
        minari.check("orbitcc/dumbbell-cubic-v0")
