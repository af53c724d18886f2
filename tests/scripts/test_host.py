"""A busy host is waited for. No test can make a host take anything, so what it takes is made up."""

from __future__ import annotations

from pathlib import Path

import pytest

from ffn_export.latency.host import Ticks
from ffn_export.latency.interleaving import Pace
from peers.cells import Effort, timed
from peers.host import PatientHost


class Busy(PatientHost):
    """A host that takes some share, a number a look."""

    def __init__(self, *shares: float, patience: float = 0.01) -> None:
        super().__init__(patience=patience)
        self._shares = list(shares)

    def stolen(self, since: Ticks | None) -> float:
        del since
        return self._shares.pop(0)


@pytest.mark.slow
def test_where_nobody_counts_nothing_is_waited_for(tmp_path: Path) -> None:
    host = PatientHost(patience=1.0, stat=tmp_path / "missing")
    host.wait()
    assert host.patience == 1.0


@pytest.mark.slow
def test_a_busy_host_is_waited_for_as_long_as_patience_lasts() -> None:
    said: list[str] = []
    host = Busy(0.5, 0.5)
    host.wait(said.append)
    assert said == ["the host is busy with others: waiting, 0 s at the most"]
    assert host.patience <= 0
    host.wait(said.append)  # nobody looks, or there were no share to tell
    assert len(said) == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("shares", "kept"),
    [
        ((0.0, 0.04), 0.04),
        ((0.0, 0.3, 0.0, 0.01), 0.01),
        ((0.0, 0.3, 0.0, 0.1, 0.0, 0.2), 0.1),
    ],
)
def test_what_the_host_disturbed_is_timed_again(shares: tuple[float, ...], kept: float) -> None:
    """Every second share is of the wait before an attempt."""
    runs: list[int] = []
    effort = Effort(0.0, 1, Busy(*shares, patience=9))
    pace = Pace(warm_up=0, rounds=1, most_rounds=1, block=1, untimed=0)
    stolen, times = timed({"ours": [lambda: runs.append(1)]}, effort, pace)
    assert stolen == kept
    assert len(runs) == len(shares) // 2
    assert len(times["ours"].seconds) == 1


def test_without_patience_once_is_enough() -> None:
    effort = Effort(0.0, 1, Busy(0.9, patience=0))
    assert timed({"ours": [lambda: None]}, effort, Pace(warm_up=0, rounds=1))[0] == 0.9
