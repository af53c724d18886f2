"""Five architectures of the corpus, from the module to the score; `make corpus` runs them all."""

from __future__ import annotations

import pytest
import torch

from corpus import baseline
from corpus.architectures import ARCHITECTURES, by_name
from corpus.trial import run

QUICK = [entry.name for entry in ARCHITECTURES if entry.quick]


def test_five_are_quick() -> None:
    assert len(QUICK) == 5


def test_names_are_unique_and_all_have_a_baseline() -> None:
    names = [entry.name for entry in ARCHITECTURES if entry.skipped is None]
    assert len(names) == len(set(names))
    assert set(names) <= set(baseline.read())


# `make corpus` has them all.
@pytest.mark.integration
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name == "bert" else pytest.mark.exhaustive) for name in QUICK]
)
def test_what_was_fused_still_is(name: str) -> None:
    threads = torch.get_num_threads()
    try:
        result = run(by_name()[name], with_peers=False)
    finally:
        torch.set_num_threads(threads)
    assert baseline.failures([result], baseline.read()) == []
    assert result.ours is not None
    assert result.ours.score is not None
    assert result.ours.score.found["feed_forward"] == 2
