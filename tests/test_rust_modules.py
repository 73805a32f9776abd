"""Modules of a Rust crate use each other in one direction, on every level of the tree of modules.

A module and all that is inside it count as one, except between its own children. A module may use those around it, as
`impl` blocks in several files do. A use counts for the module that defines the thing, whichever passes it on. Tests in
the sources and calls of methods do not count.
"""

import graphlib
import itertools
import re
from pathlib import Path

import pytest

SIM = Path(__file__).parents[1] / "sim"
NOT_CODE = re.compile(r"""//[^\n]*|/\*.*?\*/|\bb?r(#*)".*?"\1|"(?:\\.|[^"\\])*"|'(?:\\[^']+|[^'\\])'""", re.DOTALL)
TEST = re.compile(r"#\[cfg\(test\)\]")
USE = re.compile(r"\buse\s+([^;]+);")
PATH = re.compile(r"(?<![\w:$])[a-z_]\w*(?:::\w+)+")
ITEM = re.compile(r"\b(?:fn|struct|enum|union|trait|type|const|static)\s+(\w+)")


def code_of(text):
    """The text without comments, literals and tests, and the names of modules in other files that are tests."""
    text, tests = NOT_CODE.sub("0", text), set()
    while found := TEST.search(text):
        depth = 0
        for end in range(found.end(), len(text)):
            depth += (text[end] in "([{") - (text[end] in ")]}")
            if not depth and text[end] in ";}":
                break
        tests.update(re.findall(r"\bmod\s+(\w+)\s*;", text[found.end() : end + 1]))
        text = text[: found.start()] + text[end + 1 :]
    return text, tests


def named(tree, before=()):
    """(name, path) of everything that a `use` names."""
    head, brace, inner = tree.strip().partition("{")
    path, _, name = head.partition(" as ")
    path = (*before, *(part.strip() for part in path.split("::") if part.strip()))
    if brace:
        depth, item = 0, ""
        for char in inner.rstrip()[:-1] + ",":
            depth += (char == "{") - (char == "}")
            if char != "," or depth:
                item += char
            elif item.strip():
                yield from named(item, path)
                item = ""
    else:
        path = path[:-1] if path[-1] == "self" else path
        yield name.strip() or path[-1], path


class Crate:
    """The modules of a crate by their names, which are tuples; the root is ()."""

    def __init__(self, sources):
        code = {module: code_of(text) for module, text in sources.items()}
        tests = {(*module, name) for module, (_, names) in code.items() for name in names}
        self.modules = {m for m in code if not any(m[:n] in tests for n in range(1, len(m) + 1))}
        self.items, self.bound, self.globs, self.paths = {}, {}, {}, {}
        for module in self.modules:
            text, _ = code[module]
            assert not re.search(r"\bmod\s+\w+\s*\{\s*[^}\s]", text), f"{module}: a module within a file is not read"
            uses = [pair for tree in USE.findall(text) for pair in named(tree)]
            self.items[module] = set(ITEM.findall(text))
            self.bound[module] = {name: path for name, path in uses if name != "*"}
            self.globs[module] = [path[:-1] for name, path in uses if name == "*"]
            inline = {tuple(path.split("::")) for path in PATH.findall(USE.sub("", text))}
            self.paths[module] = {path for _, path in uses} | inline

    @classmethod
    def read(cls, folder):
        sources = {}
        for path in folder.rglob("*.rs"):
            *parts, last = path.relative_to(folder).with_suffix("").parts
            is_own = last == "mod" or (not parts and last in {"lib", "main"})
            sources[tuple(parts) if is_own else (*parts, last)] = path.read_text(encoding="utf-8")
        return cls(sources)

    def definer(self, module, path, after=()):
        """The module of the crate that defines what a module calls `path`, if any; names in `after` were followed."""
        at, names = module, list(path)
        while names and names[0] in {"crate", "self", "super"}:
            first = names.pop(0)
            at = {"crate": (), "self": at, "super": at[:-1]}[first]
        inside = at != module or len(names) < len(path)
        while names and (*at, names[0]) in self.modules:
            at, inside = (*at, names.pop(0)), True
        if not names or (at, names[0]) in after:
            return at if inside else None
        after = {*after, (at, names[0])}
        if names[0] in self.bound[at]:
            return self.definer(at, (*self.bound[at][names[0]], *names[1:]), after)
        if names[0] not in self.items[at]:
            for glob in self.globs[at]:
                source = self.definer(at, glob, after)
                if source is not None and names[0] in self.items[source] | self.bound[source].keys():
                    return self.definer(source, ("self", *names), after)
        return at if inside else None

    def levels(self):
        """By module, which of its children use which others, each with the lines that say so."""
        found = {}
        for module, paths in sorted(self.paths.items()):
            for path in sorted(paths):
                target = self.definer(module, path)
                if target is None:
                    continue
                depth = next((k for k, (a, b) in enumerate(zip(module, target, strict=False)) if a != b), None)
                if depth is not None:
                    uses = found.setdefault(module[:depth], {}).setdefault(module[depth], {})
                    uses.setdefault(target[depth], []).append(f"{'::'.join(module)} uses {'::'.join(path)}")
        return found

    def rings(self):
        """A ring of each level that has one, as the uses that close it."""
        for graph in self.levels().values():
            try:
                graphlib.TopologicalSorter(graph).prepare()
            except graphlib.CycleError as error:
                ring = error.args[1][::-1]
                yield [graph[user][used][0] for user, used in itertools.pairwise(ring)]


@pytest.mark.parametrize("name", ["core", "emulator", "python"])
def test_no_modules_use_each_other_in_a_ring(name):
    crate = Crate.read(SIM / name / "src")
    assert len(crate.modules) > 5
    assert () in crate.levels(), "the modules of the root use each other"
    assert not list(crate.rings())


@pytest.mark.parametrize(
    ("sources", "ring"),
    [
        ({"a": "use crate::b::{self, x::Y as Z};", "b": "", "b::x": "pub struct Y;"}, ""),
        ({"a": "use crate::b::X;", "b": "fn f() { crate::a::g() }"}, "a b"),
        ({"a": "use super::b::X;", "b": "", "b::x": "use crate::{a, c::D};"}, "a b::x"),
        ({"a::b": "use super::c::X;", "a::c": "use super::b::{d, Y};"}, "a::b a::c"),
        ({"a": "pub use b::X; struct Y;", "a::b": "use super::Y;", "a::c": "use super::{b, X};"}, ""),
        ({"a": "use b::X;", "a::b": "use super::c::Y;", "a::c": "use super::X;"}, "a::b a::c"),
        ({"a": "use b::*;", "a::b": "struct X; use super::c;", "a::c": "use super::X;"}, "a::b a::c"),
        ({"a": "use crate::b; // use crate::c::d;", "b": '/// [crate::a]\nconst C: &str = "crate::a::b";'}, ""),
        ({"a": "use crate::b;", "b": "#[cfg(test)]\nmod t;", "b::t": "use crate::a;"}, ""),
        ({"a": "use crate::b;", "b": "#[cfg(test)]\nmod t {\n    use crate::a;\n}"}, ""),
        ({"a": "use crate::b;", "b::c": "use crate::d as e; fn f() { e::x() }", "d": "use crate::a::Z;"}, "a b::c d"),
    ],
)
def test_a_ring_is_found(sources, ring):
    modules = {tuple(name.split("::")): text for name, text in sources.items()}
    around = {module[:k] for module in modules for k in range(len(module))}
    found = [sorted(use.split()[0] for use in uses) for uses in Crate(dict.fromkeys(around, "") | modules).rings()]
    assert found == ([ring.split()] if ring else [])
