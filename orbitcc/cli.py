"""The command `orbitcc`."""

from __future__ import annotations

import errno
import io
import os
import signal
import sys
import warnings
from typing import Annotated, Any

import typer

from orbitcc.commands import (
    assess,
    bench,
    cluster,
    compare,
    dataset,
    demo,
    deploy,
    doctor,
    eval_,
    fit,
    import_,
    link,
    list_,
    mininet_,
    path,
    policy,
    reproduce,
    run,
    scenario,
    score,
    search,
    trace,
    traces,
    train,
    tune,
)
from orbitcc.commands.options import InOrder, PolicyCommand, RayPolicyCommand, WholeSentences

GROUPS = {
    "Start": ("demo", "list", "run", "scenario", "fit", "path", "traces"),
    "Train": ("train", "tune", "policy", "import", "dataset"),
    "Evaluate": ("eval", "score", "compare", "assess", "search", "reproduce", "trace"),
    "Machine": ("doctor", "deploy", "undeploy", "cluster", "mininet", "link", "bench"),
}
"""Headings of `orbitcc --help` and the commands below each."""
NARROWEST = 20
"""Columns of a terminal for which tables are made."""
_OF_THE_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES, errno.EIO, errno.ENAMETOOLONG)
"""Errors of a disk that is full, read-only or broken: no mistake of this program."""


class GroupedCommands(WholeSentences):
    """Lists commands under headings."""

    def list_commands(self, ctx: Any) -> list[str]:
        return [name for names in GROUPS.values() for name in names]

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        for heading, names in GROUPS.items():
            self.write_commands(ctx, formatter, heading, names)


app = typer.Typer(
    name="orbitcc",
    cls=GroupedCommands,
    help="Train and benchmark congestion control over LEO and GEO satellite links.",
    no_args_is_help=True,
    # --install-completion and --show-completion for bash, zsh, fish and PowerShell
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # importing rich takes longer than most commands take to start
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
app.command("demo")(demo.demo)
app.command("run", cls=InOrder)(run.run)
app.command("list")(list_.list_names)
app.add_typer(scenario.app, name="scenario")
app.command("fit")(fit.fit)
app.command("path")(path.path)
app.add_typer(traces.app, name="traces")
app.command("train", cls=train.SeveralSeeds)(train.train)
app.command("tune", cls=train.SeveralSeeds)(tune.tune)
app.add_typer(policy.app, name="policy")
app.command("import")(import_.import_policy)
app.command("eval", cls=RayPolicyCommand)(eval_.evaluate)
app.command("score")(score.score)
app.command("assess", cls=RayPolicyCommand)(assess.assess)
app.command("search", cls=RayPolicyCommand)(search.search)
app.command("reproduce", cls=RayPolicyCommand)(reproduce.reproduce)
app.command("trace", cls=PolicyCommand)(trace.trace)
app.command("compare")(compare.compare)
app.command("dataset", cls=PolicyCommand)(dataset.dataset)
app.command("doctor")(doctor.doctor)
app.command("deploy")(deploy.deploy)
app.command("undeploy")(deploy.undeploy)
app.add_typer(cluster.app, name="cluster")
app.command("mininet")(mininet_.mininet)
app.command("link")(link.link)
app.command("bench")(bench.bench)


def _version(asked: bool) -> None:
    if asked:
        from orbitcc import __version__

        print(f"orbitcc {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    pass


def _wrong_usage(error: typer.TyperException) -> str:
    """One line about options and arguments that typer refuses; its own message omits the value."""
    from pydantic import ValidationError

    from orbitcc.envs.description.model import as_orbitcc_error

    if isinstance(error, typer.BadParameter) and error.param and isinstance(error.__cause__, ValidationError):
        return str(as_orbitcc_error(error.__cause__).at(error.param.opts[0]))
    return " ".join(error.format_message().split())


def _open_descriptors() -> None:
    """Open what a shell has closed (`2>&-`) to /dev/null: otherwise the next file becomes standard error."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # it gets the lowest free number
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(number, "w" if number else "r", closefd=False))


def _check_words(words: list[str]) -> None:
    """OrbitccError for an argument that is no UTF-8: results, which name their command, could not be written."""
    from orbitcc.common.errors import OrbitccError

    for before, word in zip(["argument", *words], words, strict=False):
        try:
            word.encode()
        except UnicodeEncodeError:
            raise OrbitccError(before if before.startswith("-") else "argument", word, "UTF-8 text") from None


_USUAL_FORMAT = warnings.formatwarning


def _line_of_warning(message: Warning | str, category: type[Warning], *rest: Any, **more: Any) -> str:
    """Warnings for the user as one line, others as usual."""
    from orbitcc.common.errors import OrbitccWarning

    ours = issubclass(category, OrbitccWarning)
    return f"warning: {message}\n" if ours else _USUAL_FORMAT(message, category, *rest, **more)


def main() -> None:
    """Run the command line. A wrong input is one line on stderr and exit code 2."""
    _open_descriptors()
    from orbitcc.common.errors import OrbitccError
    from orbitcc.common.names import plain

    warnings.formatwarning = _line_of_warning
    os.environ.pop("MPLBACKEND", None)  # commands open no windows, and an unknown one would stop them
    if os.environ.get("COLUMNS", "").isdigit() and int(os.environ["COLUMNS"]) < NARROWEST:
        del os.environ["COLUMNS"]  # tables would have no letters
    for stream in (sys.stdout, sys.stderr):  # a locale without UTF-8 has no letters for some names
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:  # as shells start what runs in the background
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        _check_words(sys.argv[1:])
        sys.exit(app(sys.argv[1:] or ["--help"], standalone_mode=False))
    except typer.TyperException as error:
        print(f"error: {plain(_wrong_usage(error))}", file=sys.stderr)
        sys.exit(2)
    except OrbitccError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
    except BrokenPipeError:  # e.g. `orbitcc list | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(141)
    except OSError as error:
        if error.errno not in _OF_THE_DISK:
            raise
        print(f"error: {plain(error.filename or 'a file')} cannot be written: {error.strerror}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        sys.exit(130)


if __name__ == "__main__":
    main()
