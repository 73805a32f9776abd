"""Safety filter: what a policy may ask for, and who decides where it was never trained."""

import json

import numpy as np
import pytest

from orbitcc.agents import checkpoint
from orbitcc.agents.model_card import TrainingRange
from orbitcc.agents.registry import policy_spec
from orbitcc.agents.safety_filter import filtered, limits
from orbitcc.common.errors import OrbitccError
from orbitcc.envs.backends.simulator import simulate
from orbitcc.envs.environments.safety import SafetyFilter
from orbitcc.envs.scenarios import get
from tests.agents.test_checkpoint import card, tensors
from tests.commands.shell import called

TRAINING_RANGE = TrainingRange(scenario="dumbbell", rate_mbps=(40, 160), base_rtt_ms=(10, 140), loss=(0, 0.01))


def constant(action: float) -> dict[str, np.ndarray]:
    """A policy that always does the same."""
    zeros = {name: np.zeros_like(tensor) for name, tensor in tensors().items()}
    return {**zeros, "layers.1.bias": np.array([action], np.float32)}


def recorded(folder, seed=1, **settings):
    """The policy alone for 20 s, and its goodput in the second half."""
    agent = {"name": "policy", "params": {"path": str(folder)}}
    scenario = get("dumbbell", duration_s=20.0, controller=agent, **settings).with_seed(seed)
    recording = simulate(scenario, record_interval_s=0.1)
    return recording, float(np.nanmean(recording.flows["goodput_mbps"][100:, 0]))


def test_limits_are_the_training_range_with_margins() -> None:
    safety_filter = limits(TRAINING_RANGE)
    assert safety_filter == SafetyFilter(max_bdp=4, min_rtt_ms=(8, 175), max_rate_mbps=240, max_loss=0.11, patience_s=1)
    assert limits(TrainingRange(scenario="unknown")) == SafetyFilter(max_bdp=4, patience_s=1), (
        "nothing known, nothing bounded"
    )


@pytest.mark.parametrize(("field", "value"), [("max_bdp", 1.0), ("patience_s", -1.0), ("max_bdp", float("nan"))])
def test_limits_that_make_no_sense_are_refused(field, value) -> None:
    with pytest.raises(OrbitccError, match=field):
        limits(TRAINING_RANGE, **{field: value})


def test_a_flooding_policy_is_held_at_the_measured_product(tmp_path) -> None:
    plain = checkpoint.save(tmp_path / "plain", card(training_range=TRAINING_RANGE), constant(1.0))
    held = filtered(plain, tmp_path / "held", limits(TRAINING_RANGE, max_bdp=2.0))
    settings = {"rate_mbps": 80.0, "base_rtt_ms": 50.0, "buffer_bdp": 8.0}
    queues = {}
    for folder in (plain, held):
        runs = [recorded(folder, seed, **settings)[0] for seed in range(1, 6)]
        queues[folder.name] = float(np.nanmean([run.flows["srtt_ms"][100:, 0] for run in runs])) - 50.0
    assert queues["plain"] > 300.0, "it fills eight products"
    assert queues["held"] < 80.0, "a second product at most, and what the measurement errs by"


def test_cubic_takes_over_where_the_policy_was_never_trained(tmp_path) -> None:
    plain = checkpoint.save(tmp_path / "plain", card(training_range=TRAINING_RANGE), constant(-1.0))
    safe = filtered(plain, tmp_path / "safe", limits(TRAINING_RANGE))
    inside, python_policy = {"base_rtt_ms": 50.0}, {"base_rtt_ms": 300.0}
    assert recorded(safe, rate_mbps=80.0, **inside)[1] < 5.0, "a policy that yields may, where it was trained"
    assert recorded(plain, rate_mbps=80.0, **python_policy)[1] < 5.0
    assert recorded(safe, rate_mbps=80.0, **python_policy)[1] > 60.0


def test_cubic_takes_over_in_fixed_point_as_in_floating_point(tmp_path) -> None:
    safe = filtered("perigee", tmp_path / "safe", limits(checkpoint.load("perigee").card.training_range))
    far = get("dumbbell", duration_s=20.0, rate_mbps=80.0, base_rtt_ms=600.0)
    cwnd = []
    for chosen in (str(safe), f"{safe}:arithmetic=fixed", "perigee:arithmetic=fixed"):
        played = far.with_flows([far.flows[0].changed(controller=policy_spec(chosen))])
        cwnd.append(simulate(played, record_interval_s=0.1).flows["cwnd_packets"][:, 0])
    floating, integers, alone = cwnd
    # Until Cubic decides, the windows of a policy differ by rounding; Cubic's begin where the policy stood.
    assert np.abs(integers[50:] / floating[50:] - 1).max() < 0.01
    assert np.abs(alone[50:] / floating[50:] - 1).max() > 0.5


def test_a_safety_filter_is_written_to_the_card_and_taken_away(tmp_path) -> None:
    plain = checkpoint.save(tmp_path / "plain", card(training_range=TRAINING_RANGE), tensors())
    safe = filtered(plain, tmp_path / "safe", limits(TRAINING_RANGE))
    stated = json.loads((safe / "card.json").read_text(encoding="utf-8"))["safety_filter"]
    assert stated["min_rtt_ms"] == [8, 175]
    assert checkpoint.load(filtered(safe, tmp_path / "bare", None)).card.safety_filter is None
    with pytest.raises(OrbitccError, match="out"):
        filtered(plain, safe, None)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ((), "window: at most 4 BDP; Cubic after 1 s outside 8-175 ms, above 240 Mbit/s or 11 % of losses"),
        (("--patience", "0"), "window: at most 4 BDP; never Cubic"),
        (("--max-bdp", "0", "--patience", "2.5"), "window: no limit; Cubic after 2.5 s outside 8-175 ms"),
    ],
)
def test_a_safety_filter_is_said_in_words(options, said, tmp_path) -> None:
    plain = checkpoint.save(tmp_path / "plain", card(training_range=TRAINING_RANGE), tensors())
    made = called("policy", "filter", str(plain), "--out", str(tmp_path / "safe"), *options)
    assert said in made.stdout
    shown = called("policy", "show", str(tmp_path / "safe"))
    assert said in " ".join(shown.stdout.split())


@pytest.mark.parametrize("option", ["--max-bdp", "--patience"])
def test_no_limits_beside_off(option, tmp_path) -> None:
    plain = checkpoint.save(tmp_path / "plain", card(training_range=TRAINING_RANGE), tensors())
    made = called("policy", "filter", str(plain), "--out", str(tmp_path / "x"), "--off", option, "2")
    assert (made.returncode, made.stderr) == (2, f"error: {option}: 2.0 is not allowed; allowed: none beside --off\n")


def test_a_damaged_safety_filter_is_one_error(tmp_path) -> None:
    saved = checkpoint.save(tmp_path / "policy", card(safety_filter=limits(TRAINING_RANGE)), tensors())
    stated = json.loads((saved / "card.json").read_text(encoding="utf-8"))
    stated["safety_filter"]["max_loss"] = 7
    (saved / "card.json").write_text(json.dumps(stated))
    with pytest.raises(OrbitccError, match=r"safety_filter\.max_loss"):
        checkpoint.load(saved)  # whatever its digest
