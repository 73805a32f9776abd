"""Names of others on a terminal, in a figure and in a table: shown literally, and never as anything else."""

import csv
import io

import pytest

from orbitcc.commands.run import print_tables
from orbitcc.commands.scenario import _flows, _links
from orbitcc.common import names
from orbitcc.common.errors import OrbitccError, UnknownNameError
from orbitcc.envs import scenarios
from orbitcc.envs.backends.simulator import simulate
from orbitcc.envs.description.scenario import Scenario

HOSTILE = ("[/x]", "[bold]x", "$x_{$", "$$", "\x1b[2J\x1b]0;title\x07", "a\nb", "‮abc", "<b>&", "=cmd()", "l,x", 'q"')


def scenario(name: str) -> Scenario:
    plain = scenarios.get("dumbbell", duration_s=1.0)
    links = [link.changed(name=name) for link in plain.links]
    flows = [flow.changed(name=name, path=None) for flow in plain.flows]
    return plain.changed(name=name, links=links, flows=flows)


def test_what_is_hidden_is_shown_as_an_escape():
    assert names.plain("Zürich 🛰 a\u00a0b") == "Zürich 🛰 a\u00a0b"
    assert names.plain("\x1b[2J\n\ud800\u202e") == r"\x1b[2J\n\ud800\u202e"


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_name_is_a_name_in_tables_and_pictures(name, tmp_path, capsys):
    from rich.console import Console

    from orbitcc.eval.figures import run, style
    from orbitcc.eval.figures.base import render
    from orbitcc.eval.figures.scenario import draw_scenario

    recording = simulate(scenario(name))
    print_tables(recording)
    console = Console(width=200)
    for table in (_links(recording.scenario), _flows(recording.scenario)):
        console.print(table)
    shown = capsys.readouterr().out
    assert shown.count(names.plain(name)) >= 5
    assert not any(letter in shown for letter in "\x1b\x07\u202e")
    for figure in (run.draw_run(recording, style.LIGHT), draw_scenario(recording.scenario, style.LIGHT)):
        assert b"<svg" in render(figure, "svg")


def test_series_of_any_name_stay_in_their_columns(tmp_path):
    recording = simulate(scenario("l,x"))
    text = recording.save_csv(tmp_path / "run.csv").read_text(encoding="utf-8")
    head, *rows = csv.reader(io.StringIO(text))
    assert "l,x.goodput_mbps" in head
    assert {len(row) for row in rows} == {len(head)}


def test_a_formula_is_text_and_a_number_is_a_number():
    rows = [["=cmd()", "+1", "-x", "@a", "\tb", "-0.5", -0.5, "nan", "1e3", "x,y"]]
    assert names.csv_text(rows) == "'=cmd(),+1,'-x,'@a,'\tb,-0.5,-0.5,nan,1e3,\"x,y\"\n"


def test_an_error_is_one_line_whatever_it_names():
    for error in (OrbitccError("a\nb", "c", "d"), UnknownNameError("\x1b[2J", "x", ("a\rb",))):
        assert len(str(error).splitlines()) == 1
        assert "\x1b" not in str(error)


def test_a_very_long_name_is_cut_in_a_figure():
    assert len(names.figure("x" * 1_000_000)) == 100
