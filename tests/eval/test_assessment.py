"""What is known of controllers is what an assessment says of them, and its verdicts follow its table."""

import json

import numpy as np
import pytest

from orbitcc.common.errors import OrbitccError
from orbitcc.envs.description.scenario import Scenario
from orbitcc.envs.environments.presets import preset
from orbitcc.eval.assessment import assess, contenders_of, criteria
from orbitcc.eval.assessment.criteria import GRADES, Criterion, CriterionFigure
from orbitcc.eval.assessment.judgement import as_dict, judge, write_worlds
from orbitcc.eval.assessment.suite import AssessmentSuite
from orbitcc.eval.assessment.worlds import WORLDS
from orbitcc.eval.assessment.worlds.sharing import starved_s
from orbitcc.eval.contenders import from_controller, from_policy
from orbitcc.eval.results import Results
from orbitcc.eval.runner import Task, execute


class Constant:
    """The largest action there is, whatever is seen, on a window that stands through losses."""

    preset = preset("astraea", action={"name": "astraea", "recovery": "hold"})

    def act(self, observations):
        return np.ones((len(observations), 1), dtype=np.float32)


def measured(controller, worlds, **point):
    """The figures of one run."""
    suite = AssessmentSuite([worlds])
    found = [p for p in suite.grid("full") if all(p[k] == v for k, v in point.items())]
    contender = from_policy(controller) if ":" in controller else from_controller(controller)
    return execute(Task(suite, suite.case(found[0], 1), contender, "", None))[0]["metrics"]


def verdict(key, metric, value, reference=float("nan")):
    row = next(row for row in criteria() if row.key == key)
    return GRADES[next(f for f in row.figures if f.metric == metric).judge(value, reference).item()]


def test_every_criterion_names_worlds_and_figures_that_are_there():
    assert [c.section for c in criteria()][:4] == ["5.1.1", "5.1.2", "5.1.3", "5.1.4"]
    assert len(criteria()) >= 22
    assert {c.worlds for c in criteria() if c.worlds} == set(WORLDS)
    assert all(f.reason for c in criteria() for f in c.figures)
    for c in criteria():
        points = WORLDS[c.worlds].grid("quick") if c.worlds else []
        assert all(any(f.holds_at(p) for p in points) for f in c.figures), c.key


@pytest.mark.parametrize("name", WORLDS)
def test_quick_worlds_are_among_the_full_ones_and_can_be_saved(name):
    quick, full = (WORLDS[name].grid(profile) for profile in ("quick", "full"))
    assert all(point in full for point in quick)
    world = WORLDS[name].world(quick[0], 1)
    assert Scenario.from_toml(world.to_toml()) == world


def test_either_limit_suffices_and_without_concern_limits_nothing_fails():
    def grades(values, **changed):
        figure = CriterionFigure.model_validate({**table, **changed})
        return [GRADES[k] for k in figure.judge(values, [1.0] * len(values))]

    table = {"metric": "x", "title": "x", "reason": "x", "pass": {"at_most": [1.0, "2 * cubic"]}}
    nan = float("nan")
    assert grades([1.0, 2.0, 2.1]) == ["pass", "pass", "concern"]
    assert grades([2.0, 4.0, 4.1, nan], concern={"at_most": 4.0}) == ["pass", "concern", "fail", "not applicable"]
    higher = {"pass": {"at_least": [1.0, "0.5 * cubic"]}, "concern": {"at_least": "0.1 * cubic"}}
    assert grades([0.5, 0.2, 0.05], **higher) == ["pass", "concern", "fail"]
    with pytest.raises(ValueError, match="worlds"):
        Criterion.model_validate({"key": "k", "section": "1", "title": "t", "worlds": "none", "figure": [table]})
    for wrong, said in (
        ({"pass": {"at_most": 1.0, "at_least": 0.5}}, "needs either at_least or at_most"),
        ({"pass": {"below": 1.0}}, "needs either at_least or at_most"),
        ({"pass": {"at_most": 1.0, "near": 0.5}}, "needs either at_least or at_most"),
        ({"concern": {"at_least": 4.0}}, "the same for pass and concern"),
        ({"concern": {"at_most": "2 * reno"}}, "reno is no value; allowed: cubic"),
    ):
        with pytest.raises(ValueError, match=said):
            CriterionFigure.model_validate({**table, **wrong})


def test_a_row_is_judged_by_its_worst_figure_at_its_worst_point_beside_cubic():
    # medians of two runs over the limits for a pass: harm 0.1 or Cubic's, loss 0.01 or Cubic's
    suite, line_up = AssessmentSuite(["mixed-reno"]), [from_controller("reno"), from_controller("cubic")]
    points = suite.points("quick")
    runs = {"reno": [(0.4, 0.03), (0.6, 0.05)], "cubic": [(0.2, 0.02), (0.2, 0.02)]}
    rows = [
        {"contender": c, "point": dict(p), "seed": k + 1, "scenario": str(p),
         "metrics": {"excess_harm": harm * (p is points[1]), "excess_loss": loss * (p is points[2])}}
        for c, own in runs.items() for k, (harm, loss) in enumerate(own) for p in points
    ]  # fmt: skip
    results = Results(suite, line_up, "quick", 2, None, "test", rows=rows)
    (own,), (cubic,) = judge(results, [row for row in criteria() if row.key == "beside-reno"]).outcomes.values()
    harm, loss = own.readings
    assert (harm.verdict, harm.value, harm.reference, harm.point) == ("fail", 0.5, 0.2, points[1])
    assert (loss.verdict, loss.value, loss.reference, loss.point) == ("concern", 0.04, 0.02, points[2])
    assert harm.rank[1] == pytest.approx(2.5)
    assert (own.worst, own.case.seed, own.case.point) == (harm, 2, points[1])
    assert cubic.verdict == "pass"


def test_without_a_value_of_cubic_multiples_of_it_decide_nothing():
    assert verdict("short-flows", "completion_p95_s", 3.0) == "not applicable"
    assert verdict("bufferbloat", "queue_ms", 5.0) == "pass"
    assert verdict("bufferbloat", "queue_ms", 5.1) == "fail"


def test_bbr_of_version_1_fails_on_losses_of_its_own_making():
    losses = {c: measured(c, "small-buffers", flows=10, buffer_bdp=0.25)["loss_share"] for c in ("bbr", "cubic")}
    assert verdict("self-inflicted-loss", "loss_share", losses["bbr"], losses["cubic"]) == "fail"
    assert verdict("self-inflicted-loss", "loss_share", losses["cubic"], losses["cubic"]) == "pass"


def test_cubic_and_reno_stand_in_deep_buffers():
    queue = {c: measured(c, "bufferbloat", flows=4, rate_mbps=50.0)["queue_ms"] for c in ("cubic", "reno", "bbr3")}
    assert verdict("bufferbloat", "queue_ms", queue["cubic"], queue["cubic"]) == "fail"
    assert verdict("bufferbloat", "queue_ms", queue["reno"], queue["cubic"]) == "fail"
    assert verdict("bufferbloat", "queue_ms", queue["bbr3"], queue["cubic"]) == "pass"


def test_vegas_starves_beside_cubic_and_cubic_does_not():
    point = {"mix": "1:1", "rtt_ms": 40.0, "buffer_bdp": 10.0}
    starved = {c: measured(c, "mixed-cubic", **point)["starved_s"] for c in ("vegas", "cubic")}
    assert verdict("starvation", "starved_s", starved["vegas"]) == "fail"
    assert verdict("starvation", "starved_s", starved["cubic"]) == "pass"


def test_a_flow_starves_behind_a_side_that_does_well():
    mbps = np.full((40, 4), 5.0)
    mbps[10:22, 3] = 0.2
    assert starved_s(mbps, 5.0) == 12
    assert verdict("starvation", "starved_s", 12.0) == "concern"


def test_the_stale_rtt_of_bbr3_is_of_concern():
    used = {c: measured(c, "varying-delay", path="rise")["utilisation"] for c in ("bbr3", "cubic")}
    assert verdict("varying-delay", "utilisation", used["bbr3"], used["cubic"]) == "concern"


def test_hybla_harms_reno_on_a_long_path():
    harm = measured("hybla", "mixed-reno", mix="1:1", rtt_ms=600.0)["excess_harm"]
    assert verdict("beside-reno", "excess_harm", harm) == "fail"


def test_a_policy_that_never_backs_off_fails_the_collapse_and_cubic_passes():
    policy = f"{__name__}:Constant"
    got = {c: measured(c, "collapse", event="loss 90 %")["packets_per_rtt"] for c in (policy, "cubic")}
    assert verdict("collapse", "packets_per_rtt", got[policy]) == "fail"
    assert verdict("collapse", "packets_per_rtt", got["cubic"]) == "pass"


def test_without_acknowledgements_the_transport_backs_off_even_for_such_a_policy():
    got = measured(f"{__name__}:Constant", "collapse", event="no acknowledgements")
    assert verdict("collapse", "late_over_early", got["late_over_early"]) == "pass"
    assert 0 < got["packets_per_rtt"] < 1


def test_the_card_is_the_same_whatever_the_workers_and_resumes(tmp_path):
    line_up = contenders_of(["cubic"], [])
    only = ["circuit-breaker", "bully", "multipath"]
    assessments = [assess(line_up, out_dir=tmp_path / str(n), only=only, workers=n, quiet=True) for n in (1, 2)]
    assert as_dict(assessments[0]) == as_dict(assessments[1])
    rows = (tmp_path / "1" / "runs.jsonl").read_bytes().splitlines(keepends=True)
    (tmp_path / "1" / "runs.jsonl").write_bytes(b"".join(rows[:5]) + rows[5][:20])
    again = assess(line_up, out_dir=tmp_path / "1", only=only, workers=1, quiet=True, resume=True)
    assert as_dict(again) == as_dict(assessments[0])
    assert [j.verdict for j in again.judgements] == ["pass", "pass", "not applicable"]


def test_the_worst_world_runs_by_its_file_as_it_did(tmp_path):
    assessment = assess(contenders_of(["bbr"], []), out_dir=tmp_path, only=["circuit-breaker"], workers=1, quiet=True)
    (command,) = write_worlds(assessment).values()
    world = Scenario.load(command.split()[-1])
    assert [flow.controller.name for flow in world.flows] == ["bbr"]
    case = assessment.judgements[0].case
    again = execute(Task(assessment.results.suite, case, assessment.candidate, "", None))[0]["metrics"]
    own = next(r for r in assessment.results.rows if r["contender"] == "bbr" and r["seed"] == case.seed)
    assert again == own["metrics"]
    assert world.seed == case.seed


def test_a_wrong_criterion_is_named(capsys):
    from orbitcc.commands.assess import assess as command

    with pytest.raises(OrbitccError, match="bufferbloat"):
        command("cubic", policy=None, only=["buferbloat"])
    with pytest.raises(OrbitccError, match="CONTROLLER"):
        command(None, policy=None)


def test_the_command_writes_card_worlds_pictures_and_page(tmp_path, capsys):
    from orbitcc.commands.assess import assess as command

    command("reno", policy=None, only=["bully", "multipath"], workers=1, out=tmp_path / "out", as_json=True)
    told = json.loads(capsys.readouterr().out)
    assert told == json.loads((tmp_path / "out" / "assessment.json").read_text(encoding="utf-8"))
    assert [row["key"] for row in told["criteria"]] == ["bully", "multipath"]
    page = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert "worlds/bully.toml" in page
    assert "guidance, not a certificate" in page
    assert (tmp_path / "out" / "figures" / "bully-dark.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.slow
def test_what_is_known_of_controllers_stands_on_their_cards(tmp_path):
    line_up = contenders_of(["bbr", "reno", "vegas", "hybla"], [])
    assessment = assess(line_up, out_dir=tmp_path, quiet=True)
    found = {label: {j.criterion.key: j.verdict for j in own} for label, own in assessment.outcomes.items()}
    assert found["bbr"]["self-inflicted-loss"] == "fail"
    assert found["cubic"]["bufferbloat"] == found["reno"]["bufferbloat"] == "fail"
    assert found["vegas"]["starvation"] == "fail"
    assert found["bbr3"]["varying-delay"] == "concern"
    assert found["hybla"]["beside-reno"] == "fail"
    assert found["cubic"]["collapse"] == found["reno"]["collapse"] == "pass"
