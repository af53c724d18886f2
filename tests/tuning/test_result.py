"""What is a lead."""

from __future__ import annotations

import pytest

from ffn_export.latency.result import Ratio
from ffn_export.tuning.result import Pair, lead, mean_ratio


def pair(tokens: int, ratio: float) -> Pair:
    return Pair(f"seq={tokens}", tokens, Ratio("candidate", "other", ratio, ratio, ratio))


@pytest.mark.parametrize(
    ("ratios", "leads"),
    [
        ({128: 0.96}, True),
        ({128: 0.98}, False),  # 3 % are needed
        ({1: 0.92}, False),  # 10 % at few tokens
        ({1: 0.89}, True),
        ({16: 0.89, 512: 1.005}, True),
        ({16: 0.89, 512: 1.02}, False),  # what is won there is lost here
        ({16: 1.02, 512: 0.9}, False),
        ({16: 0.99, 128: 0.98, 512: 0.95}, True),  # the mean of a group decides
        ({128: 1.3}, False),
    ],
)
def test_a_lead_is_in_one_group_and_no_loss_in_the_other(ratios: dict[int, float], leads: bool) -> None:
    assert lead([pair(tokens, ratio) for tokens, ratio in ratios.items()])[0] is leads


def test_its_figures() -> None:
    _, words = lead([pair(1, 0.8), pair(4096, 0.9)])
    assert words == "0.800 of its time up to 16 tokens (needed 0.90) and 0.900 of its time above 16 (needed 0.97)"


def test_a_lead_that_may_be_chance_is_said_to_be_one() -> None:
    assert lead([Pair("seq=256", 256, Ratio("c", "o", 0.91, 0.80, 1.02))]) == (
        False,
        "0.910 of its time above 16 (needed 0.97), but no interval below 1 there",
    )


def test_a_tie_is_no_lead() -> None:
    unsure = Pair("seq=128", 128, Ratio("candidate", "other", 0.8, 0.5, 1.01))
    assert not lead([unsure])[0]


def between(tokens: int, low: float, ratio: float, high: float) -> Pair:
    return Pair(f"seq={tokens}", tokens, Ratio("candidate", "other", ratio, low, high))


@pytest.mark.parametrize(
    ("pairs", "leads"),
    [
        # What is sure is no lead, and what is a lead is not sure.
        ([between(1, 0.6, 0.85, 1.1), between(16, 0.8, 0.93, 1.05), between(128, 0.991, 0.995, 0.999)], False),
        ([between(1, 0.7, 0.8, 0.9), between(128, 0.991, 0.995, 0.999)], True),
        # Ahead on the whole, and surely behind at one length.
        ([between(128, 1.08, 1.1, 1.12), between(4096, 0.79, 0.8, 0.81)], False),
        ([between(128, 0.95, 1.1, 1.3), between(4096, 0.69, 0.7, 0.71)], True),
    ],
)
def test_a_lead_is_surely_one_and_no_length_surely_pays_for_it(pairs: list[Pair], leads: bool) -> None:
    assert lead(pairs)[0] is leads


def test_geometric_mean() -> None:
    assert mean_ratio([pair(1, 0.5), pair(2, 2.0)]) == pytest.approx(1)
