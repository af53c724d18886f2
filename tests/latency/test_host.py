"""What a host takes is read where Linux counts it. No test can make a host take anything, so the counts are made up."""

from __future__ import annotations

from pathlib import Path

import pytest

from ffn_export.latency.host import Host, Ticks


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
def test_where_nobody_counts_nothing_is_said(stat: Path, text: str | None) -> None:
    stat.unlink() if text is None else stat.write_text(text)
    host = Host(stat=stat)
    assert host.ticks() is None
    assert host.stolen(host.ticks()) is None


def test_here_something_is_counted() -> None:
    host = Host()
    ticks = host.ticks()
    assert (ticks is not None) == host.stat.is_file()
    share = host.stolen(ticks)
    assert share is None or 0 <= share <= 1
