"""The page of an assessment: each criterion with its figures and a picture of its worst world."""

from __future__ import annotations

import html
import os
from collections.abc import Mapping
from pathlib import Path

from orbitcc.common.files import atomic_write_bytes
from orbitcc.envs.backends.simulator import simulate
from orbitcc.envs.description.scenario import Scenario
from orbitcc.eval.assessment.criteria import STANDARD, where
from orbitcc.eval.assessment.judgement import Assessment, Judgement, Reading, worst_world
from orbitcc.eval.assessment.worlds import RECORD_INTERVAL_S
from orbitcc.eval.figures.style import THEMES, Line, ThemeName, lines_of
from orbitcc.eval.report.page import coloured, picture, write_page
from orbitcc.parallel import processes

Pictures = dict[ThemeName, bytes]


def write_assessment(assessment: Assessment, commands: Mapping[str, str], workers: int | None = None) -> Path:
    """Draw the worst worlds (in figures/) and write report.html; commands: criterion -> what runs its worst world."""
    pictures = _draw_all(assessment, workers)
    for key, files in pictures.items():
        for name, data in files.items():
            atomic_write_bytes(
                assessment.results.out_dir / "figures" / f"{key}{'' if name == 'light' else '-dark'}.png", data
            )
    return write_page(
        assessment.results.out_dir / "report.html",
        "assessment",
        kicker="OrbitCC assessment",
        title=f"{assessment.candidate.label} by RFC 9743",
        lead=_lead(assessment),
        about="What the IETF asks of a congestion controller before it meets the Internet (RFC 9743, BCP 133), world "
        "by world in the simulator, beside Cubic, BBRv3 and LeoCC.",
        assessment=_assessment(assessment),
        rows="\n".join(
            _row(j, pictures.get(j.criterion.key), commands.get(j.criterion.key)) for j in assessment.judgements
        ),
        command=assessment.results.command,
        own_facts={"profile": f"{assessment.results.profile}, {assessment.results.runs} runs of each world"},
    )


def _lead(assessment: Assessment) -> str:
    count = assessment.count(assessment.candidate.label)
    fails = [j.criterion.title for j in assessment.judgements if j.verdict == "fail"]
    said = f"Of {sum(count.values())} criteria, <strong>{html.escape(assessment.candidate.label)}</strong> "
    said += f"passes {count['pass']}, {count['concern']} are of concern, {count['fail']} fail; "
    said += f"{count['not applicable']} do not apply."
    return said + (f" It fails at: {html.escape('; '.join(fails))}." if fails else "")


def _assessment(assessment: Assessment) -> str:
    head = "".join(f"<th scope=col>{html.escape(label)}</th>" for label in assessment.outcomes)
    rows = []
    for k, judgement in enumerate(assessment.judgements):
        c = judgement.criterion
        cells = "".join(
            f'<td data-title="{html.escape(label)}">{coloured(own[k].verdict)}</td>'
            for label, own in assessment.outcomes.items()
        )
        rows.append(
            f"<tr><td data-title=section>{c.section}</td><th scope=row>"
            f'<a href="#{c.key}">{html.escape(c.title)}</a></th>{cells}</tr>'
        )
    body = "\n".join(rows)
    top = f"<thead><tr><th scope=col>RFC 9743</th><th scope=col></th>{head}</tr></thead>"
    return f"<table class=verdicts>{top}\n<tbody>\n{body}\n</tbody></table>"


def _row(judgement: Judgement, files: Pictures | None, command: str | None) -> str:
    c = judgement.criterion
    head = f'<h3 id="{c.key}">{c.section} {html.escape(c.title)}: {coloured(judgement.verdict)}</h3>'
    if c.not_applicable:
        return f"{head}\n<p>{html.escape(c.not_applicable)}</p>"
    items = "\n".join(_figure(reading) for reading in judgement.readings)
    again = f"<pre><code>{html.escape(command)}</code></pre>" if command else ""
    shown = ""
    if files and judgement.worst:
        caption = f"The world in which it was worst: {html.escape(where(judgement.worst.point))}."
        shown = picture(files, c.title, caption)
    return f"{head}\n<ul>\n{items}\n</ul>\n{shown}\n{again}"


def _figure(reading: Reading) -> str:
    f = reading.figure
    return (
        f"<li>{coloured(reading.verdict)}: {html.escape(f.title)}: "
        f"<strong>{html.escape(f.format(reading.value))}</strong>, Cubic {html.escape(f.format(reading.reference))} "
        f"(world: {html.escape(where(reading.point))}; limits: {html.escape(f.limits)}). "
        f"<small>{html.escape(f.reason)}.</small></li>"
    )


def _draw_all(assessment: Assessment, workers: int | None) -> dict[str, Pictures]:
    """Criterion -> its picture in both themes."""
    lines = lines_of(assessment.results)
    standard = next(c for c in assessment.results.contenders if c.label == STANDARD)
    jobs = []
    for judgement in assessment.judgements:
        worlds: dict[str, Scenario] = {}
        for contender in (assessment.candidate, standard):
            world = worst_world(assessment, judgement, contender)
            if world is not None:
                worlds[contender.label] = world
        if worlds:
            jobs.append((judgement.criterion.key, worlds, {label: lines[label] for label in worlds}))
    with processes.lost(), processes.pool(workers or os.cpu_count() or 1) as pool:
        return dict(pool.map(_draw, jobs))


def _draw(job: tuple[str, dict[str, Scenario], dict[str, Line]]) -> tuple[str, Pictures]:
    from orbitcc.eval.figures.base import render
    from orbitcc.eval.figures.worlds import draw_world

    key, worlds, lines = job
    runs = {label: simulate(world, record_interval_s=RECORD_INTERVAL_S) for label, world in worlds.items()}
    return key, {name: render(draw_world(runs, lines, theme), dpi=110) for name, theme in THEMES.items()}
