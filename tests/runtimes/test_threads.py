from __future__ import annotations

import os
from pathlib import Path

import pytest

from ffn_export.errors import UsageError
from ffn_export.runtimes import threads
from ffn_export.runtimes.threads import available_threads, chosen_threads

NO_CGROUP = Path("/nonexistent")


def test_affinity_is_the_number_without_a_quota() -> None:
    assert available_threads(NO_CGROUP) == len(os.sched_getaffinity(0))


@pytest.mark.parametrize(("text", "threads"), [("max 100000", None), ("100000 100000", 1), ("50000 100000", 1)])
def test_cgroup_v2_quota_limits_it(tmp_path: Path, text: str, threads: int | None) -> None:
    (tmp_path / "cpu.max").write_text(text + "\n")
    assert available_threads(tmp_path) == (threads or len(os.sched_getaffinity(0)))


def test_cgroup_v1_quota_limits_it(tmp_path: Path) -> None:
    (tmp_path / "cpu").mkdir()
    (tmp_path / "cpu" / "cpu.cfs_quota_us").write_text("100000\n")
    (tmp_path / "cpu" / "cpu.cfs_period_us").write_text("100000\n")
    assert available_threads(tmp_path) == 1
    (tmp_path / "cpu" / "cpu.cfs_quota_us").write_text("-1\n")
    assert available_threads(tmp_path) == len(os.sched_getaffinity(0))


def test_threads_that_were_asked_for_are_one_or_more() -> None:
    assert chosen_threads(3) == 3
    assert chosen_threads(None) == threads.available_threads()
    for none in (0, -1):
        with pytest.raises(UsageError, match="take 1 or more"):
            chosen_threads(none)


def test_more_threads_than_a_machine_can_run_are_refused() -> None:
    most = 16 * (os.cpu_count() or 1)
    assert chosen_threads(most) == most
    with pytest.raises(UsageError, match=f"100000 threads are more than this machine can run: take {most} or fewer"):
        chosen_threads(100_000)
