"""Each promise of SECURITY.md names a test, and the test is there."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_the_test_behind_each_promise_is_there() -> None:
    page = (ROOT / "SECURITY.md").read_text()
    rows = [line for line in page.splitlines() if line.startswith("| ") and "Promise" not in line]
    named = {row: re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", row) for row in rows}
    assert len(rows) > 5
    assert [row for row, tests in named.items() if not tests] == []
    for file, test in (pair for tests in named.values() for pair in tests):
        functions = ast.parse((ROOT / file).read_text()).body
        assert test in {each.name for each in functions if isinstance(each, ast.FunctionDef)}, f"{file}::{test}"
