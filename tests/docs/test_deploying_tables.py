"""Tables of docs/deploying.md: lines that are not measured again stay, in the order of the page."""

from benches import deployed
from benches.sim_to_real import CASES, FIGURES


def test_a_policy_that_is_deployed_again_replaces_its_lines_alone(tmp_path):
    case = next(case for case in CASES if case.name == "dumbbell")
    old = ["| dumbbell | perigee | 5 | 1 |"]
    page = tmp_path / "page.md"
    text = "\n".join(["| case | policy | runs |", "|---|---|---|", *old])
    page.write_text(f"<!-- deployed -->\n{text}\n<!-- /deployed -->\n", encoding="utf-8")
    run = dict.fromkeys(FIGURES, 50.0)
    rows = [{"case": "dumbbell", "policy": "zenith", "side": side, **run} for side in deployed.SIDES]
    made = list(deployed.lines(rows, [case], deployed.written(page)))[2:]
    assert made[:1] == old
    assert [line.split("|")[2].strip() for line in made[1:]] == ["zenith"]
