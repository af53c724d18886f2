"""The results as the page docs/fusion-coverage.md, and its appendix with all tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib.metadata import version
from textwrap import fill

from corpus import chart
from corpus.entry import Architecture
from corpus.result import Optimised, Result
from corpus.scorer import KINDS
from ffn_export.reports.markdown_table import markdown_table

_TITLES = {"feed_forward": "feed-forwards", "norm": "norms", "residual_norm": "residual + norm"}
_TOOLS = ("torch", "transformers", "onnx", "onnx-ir", "onnxscript", "onnxruntime-gpu", "numpy")

_PAGE = """# Fusion coverage

{sentences}

![Real graphs fused completely and right, by optimiser](fusion-coverage.svg)

## Beside other optimisers

On the same graphs, by the same scorer, which shares no code with the fuser. [All tables](fusion-coverage-tables.md) has
each graph. `make corpus` makes both pages from `docs/fusion-coverage.json`; do not edit.

{summary}
## How it was counted

The graphs are those of real architectures at small sizes with random weights (all-MiniLM-L6-v2 with its own), fused
with `ffn_export.fuse(model, target="ort")`. A feed-forward is complete with at most one computing node between its two
products (two in a gated one), a norm as one node, a residual + norm pair as one node. Reshape, Transpose, Squeeze,
Unsqueeze, Cast, Identity, Slice, Split, Shape, Gather, Concat and Expand compute nothing.
`scripts/corpus/scorer/__init__.py` says what counts as a site.

A graph is right if its largest error against PyTorch is at most 1e-4 of the largest magnitude of the output (2e-2 in
float16), at two sets of sizes that it was not exported with, in ONNX Runtime on CPU with its own optimiser off.

{versions}.
"""
_TABLES = """# All tables: fusion coverage

Made by `make corpus`; do not edit. [The summary](fusion-coverage.md) says how it was counted. The error is the largest
one against PyTorch, over the largest magnitude of its output. The time is that of the fuser alone, on one thread.

## By architecture

"""


def versions() -> dict[str, str]:
    """Return the versions of what is compared."""
    return {tool: version(tool) for tool in _TOOLS}


def page(results: Sequence[Result], run_with: Mapping[str, str]) -> str:
    """Return the page of results and the versions of their run."""
    summary = _summary(_tried(results))
    sentences = fill(" ".join(sentences_of(*chart.complete(summary))), 118)
    return _PAGE.format(sentences=sentences, summary=summary, versions=_words(run_with))


def sentences_of(complete: Mapping[str, int], graphs: int) -> tuple[str, ...]:
    """Say what the counts of complete and right graphs say."""
    ours, *others = (f"{name} {count}" for name, count in complete.items())
    return (
        f"Of {graphs} graphs of real architectures, `{ours.split()[0]}` fuses {ours.split()[1]} completely and right.",
        f"On the same graphs the others do so in fewer: {', '.join(others)}.",
        "A site that stays unfused is named in the report, with the reason.",
    )


def tables(results: Sequence[Result], entries: Mapping[str, Architecture], skipped: Iterable[Architecture]) -> str:
    """Return the appendix, in the order of the table of architectures."""
    tried = _tried(results)
    left_out = _left_out(results, skipped)
    return f"{_TABLES}{_architectures(tried, entries)}{left_out}\n## What the others get wrong\n\n{_peer_faults(tried)}"


def _tried(results: Sequence[Result]) -> list[Result]:
    return [result for result in results if result.ours is not None]


def _words(run_with: Mapping[str, str]) -> str:
    return fill("Versions: " + ", ".join(f"{tool} {number}" for tool, number in run_with.items()), 119)


def _summary(results: Sequence[Result]) -> str:
    def ours(result: Result) -> Optimised | None:
        return result.ours

    def of_peer(name: str) -> Callable[[Result], Optimised | None]:
        return lambda result: result.peers.get(name)

    peers = list(dict.fromkeys(name for result in results for name in result.peers))
    columns = {"ffn_export, ort": ours, **{name: of_peer(name) for name in peers}}
    made = {title: [found for found in map(of, results) if found is not None] for title, of in columns.items()}
    totals = {kind: sum(r.ours.score.found[kind] for r in results if r.ours and r.ours.score) for kind in KINDS}
    rows = [(_TITLES[kind], *(f"{_complete(found, kind)}/{totals[kind]}" for found in made.values())) for kind in KINDS]
    rows.append(("graphs complete and right", *(f"{_flawless(found)}/{len(results)}" for found in made.values())))
    for title, is_it in _FAULTS.items():
        rows.append((title, *(str(sum(is_it(one.verdict) for one in found)) for found in made.values())))
    seconds = (f"{sum(one.seconds or 0 for one in found):.1f}" for found in made.values())
    rows.append(("seconds, all graphs", *seconds))
    return markdown_table(("", *made), rows, numbers=tuple(made))


def _is_crash(verdict: str) -> bool:
    return verdict.startswith("crashed")


def _does_not_run(verdict: str) -> bool:
    return verdict.startswith("cannot")


def _is_wrong(verdict: str) -> bool:
    return verdict == "wrong"


def _is_other(verdict: str) -> bool:
    return verdict in {"axes changed", "the checker refuses it"}


_FAULTS = {
    "graphs wrong": _is_wrong,
    "optimiser crashed": _is_crash,
    "result cannot be run": _does_not_run,
    "axes lost, or refused by the ONNX checker": _is_other,
}


def _complete(found: Iterable[Optimised], kind: str) -> int:
    """Count the complete sites; those of a graph that is wrong or does not run are none."""
    runs = (one for one in found if not (_is_wrong(one.verdict) or _does_not_run(one.verdict)))
    return sum(one.score.complete[kind] for one in runs if one.score is not None)


def _flawless(found: Iterable[Optimised]) -> int:
    return sum(one.verdict == "right" and one.score is not None and one.score.is_complete for one in found)


def _architectures(results: Sequence[Result], entries: Mapping[str, Architecture]) -> str:
    numbers = (*_TITLES.values(), "error", "time (ms)")
    headers = ("architecture", "graph", *_TITLES.values(), "error", "time (ms)", "not complete, and why")
    rows = []
    for result in results:
        ours, entry = result.ours, entries[result.name]
        assert ours is not None
        score = ours.score
        counts = (f"{score.complete[kind]}/{score.found[kind]}" if score else "" for kind in KINDS)
        half = ", float16" if "16" in str(entry.dtype) else ""
        graph = f"{entry.exporter} {entry.opset}{half}: {', '.join(entry.tags)}"
        error = "" if ours.error is None else f"{ours.error:.1e}"
        took = "" if ours.seconds is None else f"{ours.seconds * 1e3:.0f}"
        rows.append((result.name, graph, *counts, error, took, _why(result)))
    return (
        markdown_table(headers, rows, numbers=numbers)
        + "\nGraph: who exported it (`fx` is `ffn_export.export`), its opset, and what it stands for.\n"
    )


def _why(result: Result) -> str:
    assert result.ours is not None
    parts = [] if result.ours.verdict == "right" else [f"**{result.ours.verdict}**"]
    if result.ours.score is not None:
        for kind, left in result.ours.score.left.items():
            parts.extend(f"{count} {kind}: {operators}" for operators, count in left.items())
        if not result.ours.score.is_complete and result.reasons:
            told = "; ".join(f"{count} times {reason}" for reason, count in result.reasons.items())
            parts.append(f"the fuser says: {told}")
    return "; ".join(parts)


def _left_out(results: Sequence[Result], skipped: Iterable[Architecture]) -> str:
    rows = [(entry.name, entry.skipped or "") for entry in skipped]
    rows.extend((result.name, result.failure or "") for result in results if result.ours is None)
    return "\n## Left out\n\n" + markdown_table(("architecture", "why"), rows) if rows else ""


def _peer_faults(results: Sequence[Result]) -> str:
    rows = []
    for result in results:
        for name, peer in result.peers.items():
            if peer.verdict != "right":
                error = "" if peer.error is None else f" ({peer.error:.1e})"
                rows.append((name, result.name, f"{peer.verdict}{error}"))
    return markdown_table(("optimiser", "architecture", "what"), sorted(rows)) if rows else "Nothing.\n"
