"""Graphs at the edges of what rules take: never a crash, never another number, never a model that does not load."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.fusion.edges.edge import all_faults
from tests.fusion.edges.table import THEMES

PARTS = 12
# The edit loop and `make test` run one part of each theme, `make exhaustive` the others.
MARKS = [[], *[[pytest.mark.slow, pytest.mark.exhaustive]] * (PARTS - 1)]


@pytest.mark.no_cover
@pytest.mark.parametrize("part", [pytest.param(part, marks=MARKS[part]) for part in range(PARTS)])
@pytest.mark.parametrize("theme", THEMES)
def test_edges(theme: str, part: int) -> None:
    edges = list(THEMES[theme]())[part::PARTS]
    found = {edge.name: all_faults(edge) for edge in edges}
    assert {name: faults for name, faults in found.items() if faults} == {}


def test_names_of_edges() -> None:
    names = Counter(edge.name for edges in THEMES.values() for edge in edges())
    assert len(names) > 1500
    assert [name for name, count in names.items() if count > 1] == []
