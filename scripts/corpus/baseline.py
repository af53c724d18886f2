"""What was fused last time, and what no longer is."""

from __future__ import annotations

import json
from collections.abc import Container, Iterable, Mapping
from pathlib import Path

from corpus.result import Result
from corpus.scorer import KINDS

FILE = Path(__file__).with_name("baseline.json")

Baseline = Mapping[str, Mapping[str, int]]


def read(path: Path = FILE) -> Baseline:
    """Return architecture -> kind of site -> how many were complete; empty where there is no file yet."""
    if not path.is_file():
        return {}
    found: dict[str, dict[str, int]] = json.loads(path.read_text())
    return found


def write(results: Iterable[Result], known: Container[str], path: Path = FILE) -> None:
    """Keep what is complete in these results; known architectures that did not run stay as they were."""
    kept = {name: dict(counts) for name, counts in read(path).items() if name in known}
    for result in results:
        if result.ours is not None and result.ours.score is not None:
            kept[result.name] = dict(result.ours.score.complete)
    lines = [f"  {json.dumps(name)}: {json.dumps(kept[name])}" for name in sorted(kept)]
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n")


def failures(results: Iterable[Result], baseline: Baseline) -> list[str]:
    """Return a line for each thing that is wrong, or that was fused and no longer is."""
    return [line for result in results for line in _failures_of(result, baseline.get(result.name, {}))]


def _failures_of(result: Result, before: Mapping[str, int]) -> list[str]:
    if result.ours is None:
        return [f"{result.name}: no graph to fuse: {result.failure}"]
    lines = [] if result.ours.verdict == "right" else [f"{result.name}: {_what_is_wrong(result)}"]
    now = result.ours.score.complete if result.ours.score is not None else {}
    lost = [kind for kind in KINDS if now.get(kind, 0) < before.get(kind, 0)]
    return lines + [f"{result.name}: {now.get(k, 0)} {k} sites are complete, {before[k]} were" for k in lost]


def _what_is_wrong(result: Result) -> str:
    assert result.ours is not None
    error = "" if result.ours.error is None else f" (error {result.ours.error:.1e})"
    return f"{result.ours.verdict}{error}"
