"""Options and arguments that several commands share, with the shell completion of names."""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

if TYPE_CHECKING:
    from rich.table import Table

ADDRESS = re.compile(r"auto|local|ray://.+|.+:\d+")
"""What is taken for the address after `--ray`."""


COLOURS = {
    "better": "green", "worse": "red", "tied": "dim", "too few runs": "yellow",
    "holds": "green", "fails": "red", "within noise": "cyan", "undecidable": "yellow",
    "pass": "green", "fail": "red", "concern": "yellow", "not applicable": "dim",
}  # fmt: skip
"""Of verdicts in tables."""


def table(texts: str | Sequence[str], *figures: str, title: str | None = None) -> Table:
    """A table with these heads: one or more of texts, to the left, then of figures, to the right."""
    from rich import box
    from rich.table import Table

    made = Table(
        box=box.SIMPLE_HEAD, padding=(0, 0) if figures else (0, 1), pad_edge=False, header_style="bold",
        border_style="dim", title=title, title_justify="left", title_style="bold",
    )  # fmt: skip
    for head in [texts] if isinstance(texts, str) else texts:
        made.add_column(head, overflow="fold")
    for head in figures:
        made.add_column(head, justify="right", no_wrap=True)  # a narrow terminal wraps names, not figures
    return made


class PolicyCommand(TyperCommand):
    """Takes `--trust` only beside something that may load a policy of another library."""

    def invoke(self, ctx: Any) -> Any:
        lists = [value if isinstance(value, list) else [value] for key, value in ctx.params.items() if key != "trust"]
        if ctx.params.get("trust"):
            from orbitcc.agents.python_policy import is_python_policy
            from orbitcc.common.errors import OrbitccError

            texts = [text for values in lists for text in values if isinstance(text, str)]
            if not any(is_python_policy(text) or "path=" in text for text in texts):  # code may load it, too
                allowed = "beside a policy rllib:FOLDER or sb3:FILE, for which alone it is used"
                raise OrbitccError("--trust", ctx.params["trust"][0], allowed)
        return super().invoke(ctx)


class RayCommand(TyperCommand):
    """Takes `--ray` with or without an address."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        words: list[str] = []
        for k, word in enumerate(args):
            alone = word == "--ray" and not ADDRESS.fullmatch("".join(args[k + 1 : k + 2]))
            words += ["--ray", "auto"] if alone else [word]
        return super().parse_args(ctx, words)


class RayPolicyCommand(RayCommand, PolicyCommand):
    """Both."""


class InOrder(PolicyCommand):
    """Keeps the order in which options stand, for those whose values belong together (`order_of`)."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        _, _, params = self.make_parser(ctx).parse_args(args=list(args))
        ctx.meta[ORDER] = [param.name for param in params]
        return super().parse_args(ctx, args)


ORDER = "orbitcc.order"


def order_of(ctx: typer.Context, *names: str) -> list[str]:
    """The names of these options of an `InOrder` command, one for each time they were given, as on the command line."""
    return [name for name in ctx.meta[ORDER] if name in names]


class WholeSentences(TyperGroup):
    """Lists commands with their whole first sentence, never cut by an ellipsis."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        self.write_commands(ctx, formatter, "Commands", self.list_commands(ctx))

    def write_commands(self, ctx: Any, formatter: Any, heading: str, names: Iterable[str]) -> None:
        """One section of the help: a heading and these commands."""
        commands = {name: self.get_command(ctx, name) for name in names}
        with formatter.section(heading):
            formatter.write_dl(
                [(name, found.get_short_help_str(limit=1000)) for name, found in commands.items() if found]
            )


def _starting_with(incomplete: str, names: Iterable[str]) -> list[str]:
    return [name for name in names if name.startswith(incomplete)]


def complete_scenario(incomplete: str) -> list[str]:
    from orbitcc.envs.scenarios import DISTRIBUTIONS, MEASURED, SCENARIOS

    return _starting_with(incomplete, (*SCENARIOS, *DISTRIBUTIONS, *MEASURED))


def complete_controller(incomplete: str) -> list[str]:
    import orbitcc  # noqa: F401  (registers the controllers)
    from orbitcc.envs import controllers

    return _starting_with(incomplete, controllers.names())


def complete_policy(incomplete: str) -> list[str]:
    from orbitcc.agents.runs.folders import shipped

    return _starting_with(incomplete, shipped())


def complete_suite(incomplete: str) -> list[str]:
    from orbitcc.eval import suites

    return _starting_with(incomplete, suites.names())


def complete_recipe(incomplete: str) -> list[str]:
    from orbitcc.training.recipe import names

    return _starting_with(incomplete, names())


POLICY_FORMS = (
    "a shipped name, a checkpoint's folder, package.module:factory, rllib:FOLDER, sb3:FILE or hf:OWNER/NAME, then "
    "[:option=value,...]"
)


def each_once(param: typer.CallbackParam, given: list[str] | None) -> list[str] | None:
    """OrbitccError for KEY=VALUE with a key that has been given before."""
    keys = [text.partition("=")[0].strip() for text in given or ()]
    for key in keys:
        if keys.count(key) > 1:
            from orbitcc.common.errors import OrbitccError

            raise OrbitccError(param.opts[0], key, "each key once")
    return given


ScenarioName = Annotated[
    str,
    typer.Argument(
        metavar="SCENARIO",
        help="A name from `orbitcc list scenarios`, or a TOML file.",
        autocompletion=complete_scenario,
    ),
]
RecipeName = Annotated[
    str,
    typer.Argument(
        metavar="RECIPE", help="A name from `orbitcc list recipes`, or a TOML file.", autocompletion=complete_recipe
    ),
]
Changes = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Set a parameter of a named scenario, or any field, e.g. links.0.rate_mbps=50. Repeatable.",
        callback=each_once,
    ),
]
Policies = Annotated[
    list[str] | None,
    typer.Option(
        "--policy", metavar="POLICY", help=f"A policy: {POLICY_FORMS}. Repeatable.",
        autocompletion=complete_policy,
    ),
]  # fmt: skip


def _trust(places: list[str] | None) -> list[str] | None:
    """Allow it at once: policies are loaded in many places, and never because a file says so."""
    if places:
        from orbitcc.agents.libraries import trust
        from orbitcc.common.errors import OrbitccError

        for place in places:
            found = Path(place).expanduser()
            if found.exists() and not (found.is_dir() or found.is_file()):
                raise OrbitccError("--trust", place, "a file or folder with a policy")
        trust(places)
    return places


Trust = Annotated[
    list[str] | None,
    typer.Option(
        metavar="PATH",
        help="Load policies of RLlib and Stable-Baselines3 at this path or below it, although their files can run "
        "code. Repeatable.",
        callback=_trust,
    ),
]
Controllers = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME[:param=value,...]",
        help="A classical controller, e.g. cubic:hystart=off. Repeatable.",
        autocompletion=complete_controller,
    ),
]
Programs = Annotated[
    list[str] | None,
    typer.Option(
        "--program",
        metavar="NAME='COMMAND'",
        help="A client of yours as a contender, e.g. iperf3='iperf3 -c {server} -p {port} -t {seconds}'; implies "
        "--backend emulator. Repeatable (docs/programs.md).",
    ),
]
Servers = Annotated[
    list[str] | None,
    typer.Option(
        "--server",
        metavar="[NAME=]'COMMAND'",
        help="The server of --program NAME, or of all, e.g. 'iperf3 -s -p {port}'. Repeatable.",
    ),
]
Profile = Annotated[str, typer.Option(help="Number of runs: quick, reduced or full.")]
Workers = Annotated[int | None, typer.Option(help="Processes. Default: one per core.")]
Ray = Annotated[
    str | None,
    typer.Option(
        metavar="[ADDRESS]",
        help="Run on every node of the Ray cluster at HOST:PORT, auto or local (docs/cluster.md). Without ADDRESS: "
        "auto, which is the running cluster, or a local one where none runs.",
    ),
]
Out = Annotated[Path | None, typer.Option(help="Results folder. Default: a new one in results/.")]
Resume = Annotated[bool, typer.Option("--resume", help="Continue the run in --out.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Backend = Annotated[
    str | None,
    typer.Option(
        help="simulator, or emulator: the TCP of this machine's kernel, in real time (`orbitcc doctor`). Default: "
        "simulator, with --program emulator."
    ),
]


def chosen_backend(given: str | None, programs: Sequence[Any]) -> str:
    """The backend that was asked for; OrbitccError where it cannot run programs."""
    from orbitcc.common.errors import OrbitccError

    if programs and given not in (None, "emulator"):
        raise OrbitccError("--backend", given, "emulator with --program")
    return given or ("emulator" if programs else "simulator")


LAST_SEED = 2**31 - 1
"""Of networks: the random numbers of some learners have seeds of 32 bits, and a resumed run adds to its seed."""


def print_json(data: Any, indent: int | None = 2) -> None:
    """Print as JSON; a number that is not finite, or a figure that does not exist, is null."""
    from orbitcc.common.numbers import finite

    print(json.dumps(finite(data), indent=indent, allow_nan=False))


def results_folder(out: Path | None, resume: bool, name: str) -> Path:
    """`--out`, or a new folder results/NAME__TIME. Raises OrbitccError for `--resume` without `--out`."""
    from orbitcc.common.errors import StateError

    if resume and out is None:
        raise StateError("--resume", "name the folder to continue with --out")
    return out or Path("results") / f"{name}__{time.strftime('%Y%m%d-%H%M%S')}"


@contextmanager
def resumable(command: str, out: Path | None, folder: Path, resume: bool, kept: str = "runs") -> Iterator[None]:
    """Say after Ctrl-C which command continues, and exit with 130. kept: what of the work is on the disk."""
    try:
        yield
    except KeyboardInterrupt:
        command += ("" if out else f" --out {folder}") + ("" if resume else " --resume")
        print(f"interrupted; finished {kept} are kept. Continue with: {command}", file=sys.stderr)
        raise typer.Exit(130) from None
