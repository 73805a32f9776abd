"""Guards: what a policy may ask for, and who decides where it was never trained."""

import json

import numpy as np
import pytest

from orbitcc.agents import checkpoint
from orbitcc.agents.card import Envelope, Guard
from orbitcc.agents.guard import guarded, limits
from orbitcc.envs.backends.simulator import simulate
from orbitcc.envs.errors import OrbitccError
from orbitcc.envs.scenarios import get
from tests.agents.test_checkpoint import card, tensors

ENVELOPE = Envelope(scenario="dumbbell", rate_mbps=(40, 160), base_rtt_ms=(10, 140), loss=(0, 0.01))


def constant(action: float) -> dict[str, np.ndarray]:
    """A policy that always does the same."""
    zeros = {name: np.zeros_like(tensor) for name, tensor in tensors().items()}
    return {**zeros, "layers.1.bias": np.array([action], np.float32)}


def recorded(folder, seed=1, **settings):
    """The policy alone for 20 s, and its goodput in the second half."""
    agent = {"name": "agent", "params": {"path": str(folder)}}
    scenario = get("dumbbell", duration_s=20.0, controller=agent, **settings).with_seed(seed)
    recording = simulate(scenario, record_interval_s=0.1)
    return recording, float(np.nanmean(recording.flows["goodput_mbps"][100:, 0]))


def test_limits_are_the_envelope_with_margins() -> None:
    guard = limits(ENVELOPE)
    assert guard == Guard(most_bdp=4, min_rtt_ms=(8, 175), most_rate_mbps=240, most_loss=0.11, patience_s=1)
    assert limits(Envelope(scenario="unknown")) == Guard(most_bdp=4, patience_s=1), "nothing known, nothing bounded"


@pytest.mark.parametrize(("field", "value"), [("most_bdp", 1.0), ("patience_s", -1.0), ("most_bdp", float("nan"))])
def test_limits_that_make_no_sense_are_refused(field, value) -> None:
    with pytest.raises(OrbitccError, match=field):
        limits(ENVELOPE, **{field: value})


def test_a_flooding_policy_is_held_at_the_measured_product(tmp_path) -> None:
    plain = checkpoint.save(tmp_path / "plain", card(envelope=ENVELOPE), constant(1.0))
    held = guarded(plain, tmp_path / "held", limits(ENVELOPE, most_bdp=2.0))
    settings = {"rate_mbps": 80.0, "base_rtt_ms": 50.0, "buffer_bdp": 8.0}
    queues = {}
    for folder in (plain, held):
        runs = [recorded(folder, seed, **settings)[0] for seed in range(1, 6)]
        queues[folder.name] = float(np.nanmean([run.flows["srtt_ms"][100:, 0] for run in runs])) - 50.0
    assert queues["plain"] > 300.0, "it fills eight products"
    assert queues["held"] < 80.0, "a second product at most, and what the measurement errs by"


def test_cubic_takes_over_where_the_policy_was_never_trained(tmp_path) -> None:
    plain = checkpoint.save(tmp_path / "plain", card(envelope=ENVELOPE), constant(-1.0))
    safe = guarded(plain, tmp_path / "safe", limits(ENVELOPE))
    inside, outside = {"base_rtt_ms": 50.0}, {"base_rtt_ms": 300.0}
    assert recorded(safe, rate_mbps=80.0, **inside)[1] < 5.0, "a policy that yields may, where it was trained"
    assert recorded(plain, rate_mbps=80.0, **outside)[1] < 5.0
    assert recorded(safe, rate_mbps=80.0, **outside)[1] > 60.0


def test_a_guard_is_written_to_the_card_and_taken_away(tmp_path) -> None:
    plain = checkpoint.save(tmp_path / "plain", card(envelope=ENVELOPE), tensors())
    safe = guarded(plain, tmp_path / "safe", limits(ENVELOPE))
    stated = json.loads((safe / "card.json").read_text())["guard"]
    assert stated["min_rtt_ms"] == [8, 175]
    assert checkpoint.load(guarded(safe, tmp_path / "bare", None)).card.guard is None
    with pytest.raises(OrbitccError, match="out"):
        guarded(plain, safe, None)


def test_a_damaged_guard_is_one_error(tmp_path) -> None:
    saved = checkpoint.save(tmp_path / "policy", card(guard=limits(ENVELOPE)), tensors())
    stated = json.loads((saved / "card.json").read_text())
    stated["guard"]["most_loss"] = 7
    (saved / "card.json").write_text(json.dumps(stated))
    with pytest.raises(OrbitccError, match=r"guard\.most_loss"):
        checkpoint.load(saved)
