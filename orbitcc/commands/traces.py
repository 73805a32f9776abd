"""`orbitcc traces`: measured paths in one file, for training and evaluation."""

from __future__ import annotations

import contextlib
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from orbitcc.commands.options import AsJson, WholeSentences, Workers, print_json, table

if TYPE_CHECKING:
    from orbitcc.envs.orbits.trace_set import TraceSet
    from orbitcc.eval.path_model import PathModel

app = typer.Typer(
    cls=WholeSentences,
    help="Make trace sets of measured paths, and look at them (docs/traces.md).",
    no_args_is_help=True,
    rich_markup_mode=None,
)
NAMES = ("leocc", "lens", "wetlinks", "mahimahi", "pings")
LISTED = 10
"""As many unreadable files, and findings of each kind, are printed."""
SetFile = Annotated[Path, typer.Argument(metavar="SET", help="A trace set, made by `orbitcc traces import`.")]


@contextlib.contextmanager
def _interruptible(said: str) -> Iterator[None]:
    """Say after Ctrl-C what the same command does, and exit with 130."""
    try:
        yield
    except KeyboardInterrupt:
        print(f"interrupted; {said} with the same command", file=sys.stderr)
        raise typer.Exit(130) from None


@app.command("import")
def import_traces(
    layout: Annotated[
        str,
        typer.Argument(metavar="|".join(NAMES), help="Whose folder it is.", autocompletion=lambda: NAMES),
    ],
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="The folder of the data set, as its authors publish it.")
    ],
    out: Annotated[Path, typer.Option(help="Write the set to this .npz file, and its picture beside it.")],
    licence: Annotated[
        str | None, typer.Option(help="Of the data. Default: what its authors state, or 'not stated'.")
    ] = None,
    workers: Workers = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace an existing --out and the picture beside it.")
    ] = False,
) -> None:
    """Import a folder of measured paths as a trace set with a fixed split.

    A stopped import continues with the same command. Files that cannot be read are listed and left out; exit code 2 if
    none can.
    """
    from orbitcc.agents.runs.folders import locked
    from orbitcc.common.errors import FileError, UnknownNameError
    from orbitcc.common.files import atomic_write_bytes, check_ending, check_place
    from orbitcc.common.names import plain
    from orbitcc.envs.traces.importing import check_out, import_set, parts_of, picture_of
    from orbitcc.eval.figures.base import render
    from orbitcc.eval.figures.style import LIGHT
    from orbitcc.eval.figures.traces import draw_traces
    from orbitcc.parallel import work
    from orbitcc.parallel.progress import Display

    if layout not in NAMES:
        raise UnknownNameError("layout", layout, NAMES)
    check_ending("--out", out, ".npz")
    check_place(out)
    check_out(out, overwrite)
    parts, picture = parts_of(out), picture_of(out)
    fresh = [parent for parent in parts.absolute().parents if not parent.exists()]
    with (
        _interruptible("what was read is kept. Continue"),
        work.workers(workers) as apply,
        Display(1, f"traces, {layout}") as display,
    ):

        def progress(done: int, total: int) -> None:
            display.total = total
            display.update(done, f"{done}/{total} items")

        def draw(found: TraceSet) -> None:
            atomic_write_bytes(picture, render(draw_traces(found, LIGHT), "png"))

        try:
            parts.mkdir(parents=True, exist_ok=True)
            with locked(parts):
                made, unreadable = import_set(layout, folder, out, apply, progress, licence, draw)
        except OSError as error:
            raise FileError("--out", str(out), f"a place for {parts.name} ({error.strerror or error})") from None
        finally:
            for path in (parts, *fresh):
                with contextlib.suppress(OSError):  # it has files, or is gone
                    path.rmdir()
    for line in unreadable[:LISTED]:
        print(f"warning: left out: {plain(line)}", file=sys.stderr)
    if unreadable:
        more = f", the first {LISTED} of them above" if len(unreadable) > LISTED else ""
        print(f"warning: {len(unreadable)} could not be read{more}; `orbitcc traces show` lists all", file=sys.stderr)
    doubts: dict[str, list[str]] = {}
    for entry in made.entries:
        for doubt in entry["doubts"]:
            doubts.setdefault(re.split(": | by ", doubt)[0], []).append(f"{entry['name']}: {doubt}")
    for lines in doubts.values():
        print(f"warning: {len(lines)} of {len(made.entries)} paths, first {plain(lines[0])}", file=sys.stderr)
    _print(made)
    print(f"picture: {picture}")
    print(f"set: {out}")


@app.command()
def show(traces: SetFile, as_json: AsJson = False) -> None:
    """Print where a trace set comes from, its licence, and its paths by place and part."""
    from orbitcc.common.names import plain
    from orbitcc.envs.orbits.trace_set import TraceSet

    found = TraceSet(traces)
    if as_json:
        print_json({**found.index, "digest": found.digest})
        return
    _print(found)
    for line in found.index.get("unreadable", ()):
        print(f"left out: {plain(str(line))}")


@app.command()
def check(
    traces: SetFile,
    most: Annotated[float, typer.Option(min=0, help="Highest rate in the direction of the data, Mbit/s.")] = 500.0,
    most_up: Annotated[float, typer.Option(min=0, help="Highest rate in the other direction, Mbit/s.")] = 60.0,
    as_json: AsJson = False,
) -> None:
    """Print what looks wrong in a trace set; nothing in it is changed."""
    from dataclasses import asdict

    from rich.console import Console

    from orbitcc.common.names import terminal
    from orbitcc.envs.orbits.trace_set import TraceSet
    from orbitcc.envs.traces.check import check as findings

    found = list(findings(TraceSet(traces), most, most_up))
    if as_json:
        print_json([asdict(one) for one in found])
        return
    if not found:
        print("nothing looks wrong")
        return
    shown = table("what looks wrong", "paths", "first of them", "")
    for column, least in zip(shown.columns, (24, 5, 20, 12), strict=True):
        column.min_width, column.no_wrap, column.overflow = least, False, "fold"
    for what in dict.fromkeys(one.what for one in found):
        same = [one for one in found if one.what == what]
        shown.add_row(what, f"{len(same):,}", terminal(same[0].path), terminal(same[0].value))
    Console().print(shown)


@app.command()
def model(
    traces: SetFile,
    out: Annotated[Path, typer.Option(help="Write the distribution to this .toml file, a scenario for training.")],
    paths: Annotated[int, typer.Option(min=5, help="Paths of the train and of the test part, at most.")] = 200,
    worlds: Annotated[int, typer.Option(min=2, help="Paths of each kind that controllers are compared on.")] = 40,
    plot: Annotated[Path | None, typer.Option(help="Write a picture of the comparison (.png, .pdf or .svg).")] = None,
    workers: Workers = None,
    as_json: AsJson = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an existing --out.")] = False,
) -> None:
    """Fit a distribution of generated paths to the train part of a set, and compare it with the test part."""
    from orbitcc.common.errors import FileError
    from orbitcc.common.files import atomic_write_bytes, atomic_write_text, check_ending, check_place, toml_text
    from orbitcc.envs.orbits.trace_set import TraceSet
    from orbitcc.eval import path_model
    from orbitcc.eval.figures.base import check_name, render
    from orbitcc.eval.figures.path_model import draw_model
    from orbitcc.eval.figures.style import LIGHT
    from orbitcc.parallel import work

    check_ending("--out", out, ".toml")
    check_place(out)
    if out.exists() and not overwrite:
        raise FileError("--out", str(out), "a file that does not exist yet, or --overwrite")
    suffix = None if plot is None else check_name(plot)
    with _interruptible("nothing is kept. Start again"), work.workers(workers) as apply:
        found = path_model.model(TraceSet(traces), out.stem, apply, paths, worlds)
    atomic_write_text(out, toml_text(found.table))
    if plot is not None and suffix is not None:
        atomic_write_bytes(plot, render(draw_model(found, LIGHT), suffix))
    if as_json:
        print_json(path_model.as_json(found))
        return
    _print_model(found)
    print(f"model: {out}")


def _print_model(found: PathModel) -> None:
    from rich.console import Console

    from orbitcc.common.names import terminal

    console, compared = Console(), found.comparison
    for place, notes in found.notes.items():
        shown = table(f"fitted at {terminal(place)}", "", "from")
        for note in notes:
            shown.add_row(note.quantity, note.value, note.origin)
        console.print(shown)
    shown = table("5 %, median, 95 %", "measured", "generated", "apart", "train and test apart")
    for m in compared.marginals:
        ends = [", ".join(f"{v:.4g}" for v in values) for values in (m.measured, m.generated)]
        shown.add_row(f"{m.quantity}, {m.unit}", *ends, f"{m.distance:.2f}", f"{m.between_parts:.2f}")
    console.print(shown)
    shown = table("mean over paths", "measured", "generated", "spread over paths")
    for f in compared.figures:
        shown.add_row(f.quantity, f"{f.measured:.2f}", f"{f.generated:.2f}", f"{f.spread:.2f}")
    console.print(shown)
    shown = table("goodput, Mbit/s", "measured", "generated", "difference")
    for r in compared.reached:
        shown.add_row(r.controller, f"{r.measured_mbps:.1f}", f"{r.generated_mbps:.1f}", f"{r.difference:+.0%}")
    console.print(shown)
    counts = ", ".join(f"{count} {name}" for name, count in compared.paths.items())
    console.print(
        f"rank correlation of the controllers {compared.rank_correlation:.2f}; paths: {counts}", highlight=False
    )
    for miss in compared.misses():
        console.print(f"not alike: {terminal(miss)}", highlight=False)


def _print(found: TraceSet) -> None:
    from rich.console import Console

    from orbitcc.common.names import terminal
    from orbitcc.envs.orbits.trace_set import PARTS

    console, index = Console(), found.index
    console.print(
        f"[bold]{terminal(str(index.get('source', '')))}[/bold] · {len(found.entries):,} paths", highlight=False
    )
    for key in ("layout", "publisher", "citation", "licence"):
        if index.get(key):
            console.print(f"{key}: {terminal(str(index[key]))}", highlight=False)
    console.print(
        f"split by {terminal(str(index.get('unit')))} of a place: {terminal(str(index.get('split_digest')))}",
        highlight=False,
    )
    shown = table("place", *PARTS, "minutes", "Mbit/s", "RTT, ms", "outages", "lost each way, %")
    by_place: dict[str, list[dict[str, Any]]] = {}
    for entry in found.entries:
        by_place.setdefault(entry["place"], []).append(entry)
    for place, own in sorted(by_place.items()):
        total_s = sum(e["duration_s"] for e in own)
        shown.add_row(
            terminal(place),
            *(f"{sum(e['part'] == part for e in own):,}" for part in PARTS),
            f"{total_s / 60:.0f}",
            _median(own, "rate_mbps"),
            _median(own, "rtt_ms"),
            f"{sum(e['outages'] for e in own):,}",
            f"{100 * sum(e['loss'] * e['duration_s'] for e in own) / total_s:.2f}",
        )
    console.print(shown)


def _median(entries: list[dict[str, Any]], field: str) -> str:
    """The median of the paths' medians."""
    from statistics import median

    known = [e[field][1] for e in entries if e[field]]
    return f"{median(known):.1f}" if known else "–"
