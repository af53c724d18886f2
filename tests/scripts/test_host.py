"""What a host takes is read where Linux counts it. No test can make a host take anything, so the counts are made up."""

from __future__ import annotations

from pathlib import Path

import pytest

from ffn_export.latency.interleaving import Pace
from peers.cells import Effort, timed
from peers.host import Host, Ticks


def counters(user: int, stolen: int) -> str:
    """Return the first lines of ``/proc/stat``."""
    return f"cpu  {user} 20 30 4000 50 6 7 {stolen} 900 0\ncpu0 1 1 1 1 1 1 1 1 0 0\n"


@pytest.fixture
def stat(tmp_path: Path) -> Path:
    path = tmp_path / "stat"
    path.write_text(counters(100, 10))
    return path


def test_the_share_of_what_was_wanted(stat: Path) -> None:
    host = Host(stat=stat)
    since = host.ticks()
    assert since == Ticks(100 + 20 + 30 + 6 + 7 + 10, 10)
    stat.write_text(counters(160, 50))
    assert host.stolen(since) == pytest.approx(0.4)


@pytest.mark.parametrize("text", [None, "", "intr 1 2", "cpu 1 2 3"])
def test_where_nothing_is_told_nothing_is_taken(stat: Path, text: str | None) -> None:
    stat.unlink() if text is None else stat.write_text(text)
    host = Host(patience=1.0, stat=stat)
    assert host.stolen(host.ticks()) == 0
    host.wait()
    assert host.patience == 1.0


def test_here_something_is_counted() -> None:
    host = Host()
    ticks = host.ticks()
    assert (ticks.wanted > 0) == host.stat.is_file()
    assert 0 <= host.stolen(ticks) <= 1


class Busy(Host):
    """A host that takes some share, a number a look."""

    def __init__(self, *shares: float, patience: float = 0.01) -> None:
        super().__init__(patience)
        self._shares = list(shares)

    def stolen(self, since: Ticks) -> float:
        del since
        return self._shares.pop(0)


def test_a_busy_host_is_waited_for_as_long_as_patience_lasts() -> None:
    said: list[str] = []
    host = Busy(0.5, 0.5)
    host.wait(said.append)
    assert said == ["the host is busy with others: waiting, 0 s at the most"]
    assert host.patience <= 0
    host.wait(said.append)  # nobody looks, or there were no share to tell
    assert len(said) == 1


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
