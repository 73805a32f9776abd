"""The picture of a run shows what there is, and is drawn at any recording interval."""

import numpy as np
import pytest
from matplotlib.figure import Figure

from orbitcc.envs.backends.simulator import Recording, simulate
from orbitcc.envs.description.flows import Flow
from orbitcc.envs.scenarios import get
from orbitcc.eval.figures.base import render
from orbitcc.eval.figures.run import draw_run
from orbitcc.eval.figures.style import DARK, LIGHT


def titles(figure: Figure) -> list[str]:
    return [ax.get_title("left") for ax in figure.axes]


def words(figure: Figure) -> set[str]:
    return {text.get_text() for ax in figure.axes for text in ax.texts}


def recorded(scenario: str, controller: str, interval_s: float = 0.1, **params: object) -> Recording:
    return simulate(get(scenario, controller=controller, **params), record_interval_s=interval_s)


def test_pacing_has_a_panel_where_somebody_paces() -> None:
    unpaced = draw_run(recorded("dumbbell", "reno", duration_s=5), LIGHT)
    paced = draw_run(recorded("dumbbell", "bbr", duration_s=5), LIGHT)
    assert "Pacing rate, Mbit/s" not in titles(unpaced)
    assert len(unpaced.axes) + 1 == len(paced.axes) == 5
    assert titles(paced)[1] == "Pacing rate, Mbit/s"


def test_guides_are_named_beside_their_lines() -> None:
    figure = draw_run(recorded("dumbbell", "reno", duration_s=10), LIGHT)
    assert {"capacity", "base RTT", "cwnd", "ssthresh", "BDP", "buffer"} <= words(figure)
    assert not any("handover" in text for text in words(figure))
    run = recorded("leo-responsiveness", "cubic", duration_s=20)
    changing, changing_scenario = draw_run(run, DARK), run.scenario
    (outage,) = (o for link in changing_scenario.links for o in link.outages)
    assert f"red: outages of {outage.duration_ms:.3g} ms" in words(changing)


@pytest.mark.parametrize("interval_s", [0.01, 0.1, 1.0, 7.0])
def test_any_recording_interval_is_drawn(interval_s: float) -> None:
    figure = draw_run(recorded("dumbbell", "cubic", interval_s, duration_s=10), LIGHT)
    assert render(figure, dpi=50).startswith(b"\x89PNG")
    goodput = figure.axes[0].lines[0]
    assert len(np.asarray(goodput.get_xdata())) <= 600


def test_flows_that_come_and_go_and_many_of_them_are_drawn() -> None:
    scenario = get("dumbbell", flows=12, duration_s=4)
    flows = [flow.changed(start_s=k / 4, stop_s=2 + k / 8) for k, flow in enumerate(scenario.flows)]
    recording = simulate(scenario.with_flows(flows), record_interval_s=0.1)
    assert render(draw_run(recording, LIGHT), "svg").startswith(b"<?xml")


def test_a_flow_of_another_name_is_shown_with_its_controller() -> None:
    scenario = get("dumbbell", duration_s=5)
    named = scenario.with_flows([scenario.flows[0].changed(name="upload", controller="bbr3"), Flow(controller="cubic")])
    figure = draw_run(simulate(named), LIGHT)
    assert {"▬ upload (bbr3)", "▬ cubic-1"} <= {text.get_text() for text in figure.texts}


def test_what_a_sender_of_datagrams_does_not_know_is_left_out() -> None:
    scenario = get("dumbbell", duration_s=1).with_flows([Flow.parse("udp:rate_mbps=5")])
    heading = [text.get_text() for text in draw_run(simulate(scenario), LIGHT).texts]
    assert any(text.endswith(" Mbit/s") for text in heading)
    assert not any("nan" in text or "%" in text for text in heading)
