"""The mutants that `python -m benches.mutants` makes of a line."""

from benches.mutants import python_mutations, rust_mutations

RUST = """//! 1 < 2
fn f(x: u32) -> u32 {
    let y = x.min(3) + 1_000; // not 7
    if y > 0 && !g("4 + 5") {
        self.count += 1;
    }
    y
}

#[cfg(test)]
mod tests {
    const N: u32 = 9;
}
"""

PYTHON = '''def f(x, *more):
    """Is 1 < 2?"""
    return x is not None and max(x, 0.5) >= 0
'''


def test_code_but_no_text_comment_or_test_is_changed_in_rust() -> None:
    changed = [after.strip() for _, after in rust_mutations(RUST)]
    assert changed == [
        "let y = x.max(3) + 1_000; // not 7",
        "let y = x.min(4) + 1_000; // not 7",
        "let y = x.min(3) - 1_000; // not 7",
        "let y = x.min(3) + 2000; // not 7",
        'if y <= 0 && !g("4 + 5") {',
        'if y > 0 || !g("4 + 5") {',
        'if y > 0 && g("4 + 5") {',
        "self.count -= 1;",
        "self.count += 2;",
        "();",
    ]


def test_only_what_python_can_parse_is_a_mutant() -> None:
    assert [after.strip() for _, after in python_mutations(PYTHON)] == [
        "return x is  None and max(x, 0.5) >= 0",
        "return x is not None or max(x, 0.5) >= 0",
        "return x is not None and min(x, 0.5) >= 0",
        "return x is not None and max(x, 1.0) >= 0",
        "return x is not None and max(x, 0.5) < 0",
    ]
