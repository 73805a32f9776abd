"""The frame all pages share, and what they are made of: facts, pictures for either theme."""

from __future__ import annotations

import base64
import html
import re
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from string import Template

from orbitcc.common import provenance
from orbitcc.common.files import atomic_write_text
from orbitcc.eval.figures.style import THEMES, ThemeName


def asset(name: str) -> str:
    """The text of a file beside this one."""
    return resources.files(__package__).joinpath(name).read_text(encoding="utf-8")


def write_page(
    path: Path,
    kind: str,
    *,
    kicker: str,
    title: str,
    lead: str,
    about: str,
    command: str,
    own_facts: Mapping[str, str],
    sortable: bool = False,
    **parts: str,
) -> Path:
    """Write a page of a kind: the contents of KIND.html, filled with `parts` (HTML), in the frame of all pages.

    title and command are plain text, lead and about are HTML; own_facts stand with the command (`$made`), those
    of the code after them. sortable: its tables sort by a click on a column's head.
    """
    made = Template(asset("made.html")).substitute(command=html.escape(command), facts=_facts(own_facts)).rstrip()
    page = Template(asset("page.html")).substitute(
        css=asset("style.css").rstrip(),
        kicker=html.escape(kicker),
        title=html.escape(title),
        lead=lead,
        about=about,
        content=Template(asset(f"{kind}.html")).substitute(parts, made=made).rstrip(),
        script=f"<script>\n{asset('sort.js').rstrip()}\n</script>" if sortable else "",
    )
    return atomic_write_text(path, page)


def _facts(own: Mapping[str, str]) -> str:
    """A list of facts, those of the code last."""
    found = {**own, **provenance.versions()}
    return "\n".join(f"<dt>{html.escape(k)}</dt><dd>{html.escape(v)}</dd>" for k, v in found.items())


def words(text: str) -> str:
    """Our own text as HTML; what stands between backticks is code."""
    return re.sub("`([^`]+)`", r"<code>\1</code>", html.escape(text))


def coloured(word: str) -> str:
    """A verdict in its colour."""
    return f'<span class="{word.replace(" ", "-")}">{word}</span>'


def picture(files: Mapping[ThemeName, bytes], title: str, caption: str) -> str:
    """A figure from a PNG per theme; caption is HTML."""
    light, dark = (f"data:image/png;base64,{base64.b64encode(files[n]).decode()}" for n in THEMES)
    return (
        f'<figure><picture tabindex="0"><source media="(prefers-color-scheme: dark)" srcset="{dark}">'
        f'<img src="{light}" alt="{html.escape(title)}" loading="lazy"></picture>'
        f"<figcaption>{caption}</figcaption></figure>"
    )
