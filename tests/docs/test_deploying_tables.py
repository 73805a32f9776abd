"""Tables of docs/deploying.md: lines that are not measured again stay, in the order of the page."""

from benches import deployed, fixed_point
from benches.pages import replace
from benches.sim_to_real import CASES, FIGURES


def test_a_suite_that_is_measured_again_replaces_its_line_alone(tmp_path):
    old = {key: f"| {key[0]} | {key[1]} | old |" for key in (("intra-rtt", "perigee"), ("geo-download", "apogee"))}
    page = tmp_path / "page.md"
    page.write_text(f"<!-- fixed-point -->\n{fixed_point.table(old)}\n<!-- /fixed-point -->\n", encoding="utf-8")
    assert fixed_point.written(page) == old
    line = fixed_point.Line("intra-rtt", "zenith", 10, (0.001, 0.0002), (-0.002, 0.0001), 23_332, 2e-5, 6e-3)
    new = fixed_point.rows([line])
    replace(page, {"fixed-point": fixed_point.table(fixed_point.written(page) | new)})
    row = "| intra-rtt | zenith | 10 | +0.10 ± 0.02 | -0.20 ± 0.01 | 23,332 | 2.0e-05 | 6.0e-03 |"
    assert list(fixed_point.written(page).values()) == [
        "| intra-rtt | perigee | old |",
        row,
        "| geo-download | apogee | old |",
    ]


def test_a_policy_that_is_deployed_again_replaces_its_lines_alone(tmp_path):
    case = next(case for case in CASES if case.name == "dumbbell")
    old = ["| dumbbell | perigee | simulator, 5 | 1 |", "| | | deployed, against agent | inside |"]
    page = tmp_path / "page.md"
    text = "\n".join(["| case | policy | side, runs |", "|---|---|---|", *old])
    page.write_text(f"<!-- deployed -->\n{text}\n<!-- /deployed -->\n", encoding="utf-8")
    run = dict.fromkeys(FIGURES, 50.0)
    rows = [{"case": "dumbbell", "policy": "zenith", "side": side, **run} for side in deployed.SIDES]
    made = list(deployed.lines(rows, [case], deployed.written(page)))[2:]
    assert made[:2] == old
    assert [line.split("|")[2].strip() for line in made[2:]] == ["zenith"] * 3 + [""] * 2
