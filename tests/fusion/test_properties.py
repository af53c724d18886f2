"""Property: whatever the graph, what is fused computes what it did, loads where it did, and looks the same outside."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ffn_export.fusion.targets import TARGETS
from tests.fusion.edges.edge import Edge, faults
from tests.fusion.random_graphs import edges


@pytest.mark.slow
@given(edge=edges(), target=st.sampled_from(sorted(TARGETS)))
def test_fused_equals_unfused(edge: Edge, target: str) -> None:
    assert list(faults(edge, target)) == []
