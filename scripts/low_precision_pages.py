"""The page of low precision, its chart and its appendix, from stored results."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from textwrap import fill
from typing import Any

import dot_chart
from native_benchmark import BASE, table
from peers.whole_models import BERT_BASE, MINILM

NAME = "results-low-precision"
OPTIMUM = "ORTQuantizer"
_CHART = "summary.svg"
# The length of the table, or the nearest that a model was timed at.
_TYPICAL = 128
_OURS, _PEER = "ours int8", "quantize_dynamic per channel"
_READING = """A dot is the geometric mean over all models and lengths, a line reaches from the smallest ratio to the
largest. Left of 1 the form is faster than float32. [All rows](results-low-precision-tables.md) has each time with its
quartiles, the command and the versions. `scripts/low_precision.py` makes both pages from
`docs/results-low-precision.json`; do not edit.

"""
_NAMES = """\
`quantize_dynamic` is ONNX Runtime's, with one scale for each matrix unless it says per channel. `OpenVINO int8` has
8-bit weights with a scale for each column, and the activations that its CPU plugin quantises by default, the rest in
bfloat16. `ours int8` is what `quantize --int8 --all` writes without samples, smoothed on drawn inputs; the next is
smoothed by samples. Both are for ONNX Runtime's CPU provider; `native` needs the [execution provider](native.md). Only
all-MiniLM-L6-v2 has real weights: the errors of the others are of random weights, which have no outliers, so smoothing
gains little there.

Ours gives the rows of an input one scale where scales of their own gain too little error for their time. {slower}

`ORTQuantizer` has the settings of Optimum's with `AutoQuantizationConfig.avx512_vnni`, passed to `quantize_dynamic`:
`MatMulConstBOnly` is off, so it also quantises the products of attention.

## Masks of sdpa

These exports have eager attention, which `hf:` takes. A module of yours that is exported with PyTorch's SDPA and a
boolean mask has `Where(IsInf(scores), 0, weights)` behind each Softmax, for rows that see no key, which takes time at
long sequences. Where `ort-cpu` writes attention as one node ([decision 35](decisions/0035-attention-as-one-node.md)),
these nodes go: the rows are read off the mask, and zeroed behind the node. Elsewhere they stay. A mask of floats, or
none, has no such nodes; nor has an export with
`attn_implementation="eager"`."""
_METHOD = (
    "The contenders took turns in one process, each run twice and timed the second time; on one thread that is "
    "processor time, to which waiting for a busy processor adds nothing. The ratio is to ONNX Runtime's default "
    "session on the export: the median and the quartiles of the ratios of all turns. The error is relative L2 of the "
    "first output against the module in float64."
)


def write(results: Mapping[str, Any], folder: Path) -> None:
    """Write the page, its chart and its appendix into a folder."""
    charts = folder / NAME
    charts.mkdir(exist_ok=True)
    ratios: dict[str, list[float]] = {}
    for row in results["rows"]:
        if row["contender"] != BASE:
            ratios.setdefault(row["contender"], []).append(row["ratio"])
    label = "time over that of ONNX Runtime's default float32: left of 1 is faster"
    (charts / _CHART).write_text(dot_chart.svg(ratios, label))
    (folder / f"{NAME}.md").write_text("".join(_page(results)))
    (folder / f"{NAME}-tables.md").write_text("".join(_appendix(results)))


def _page(results: Mapping[str, Any]) -> Iterator[str]:
    yield f"# Whole models in low precision, {results['environment']['processor']}\n\n"
    yield _filled(" ".join(_sentences(results))) + "\n\n"
    yield f"![Time of each form over float32]({NAME}/{_CHART})\n\n"
    yield _filled(_READING)
    rows = typical(results["rows"])
    models = list(dict.fromkeys(row["module"] for row in rows))
    lengths = {row["module"]: row["tokens"] for row in rows}
    yield f"## Time and error, {_threads(results)}\n\n"
    yield "Each cell is the time over float32's, and the relative L2 error of the first output.\n\n"
    columns = [f"{model}, {lengths[model]} tokens" for model in models]
    yield _row(["form", *columns]) + _row(["---", *["---:" for _ in columns]])
    for name in dict.fromkeys(row["contender"] for row in rows):
        of_name = {row["module"]: row for row in rows if row["contender"] == name}
        yield _row([name, *(f"{of_name[m]['ratio']:.2f}, {percent(of_name[m]['error'])}" for m in models)])
    if results["embeddings"]:
        lines = results["texts"]["lines"]
        yield f"\n## Sentence embeddings of {MINILM}\n\n"
        yield f"{lines} texts that are not in the repository, each compared with its embedding in float32.\n\n"
        yield _row(["form", "cosine, mean", "least", "relative L2 error", "10 nearest texts kept"])
        yield _row(["---", *["---:"] * 4])
        for name, each in results["embeddings"].items():
            if name != BASE:
                cells = f"{each['cosine']:.4f}", f"{each['least']:.4f}", percent(each["error"]), f"{each['kept']:.3f}"
                yield _row([name, *cells])
    yield "\n" + _filled(_NAMES.format(slower=_slower(results["rows"]))) + "\n"


def _sentences(results: Mapping[str, Any]) -> Iterator[str]:
    rows = typical(results["rows"])

    def ratio(name: str, model: str) -> str:
        (row,) = [each for each in rows if (each["contender"], each["module"]) == (name, model)]
        return f"{row['ratio']:.2f}"

    embeddings = results["embeddings"]
    if {MINILM, BERT_BASE} <= {row["module"] for row in rows} and embeddings:
        ours, peer = (embeddings[name] for name in (_OURS, _PEER))
        yield (
            f"At {_TYPICAL} tokens, `quantize --int8 --all` takes {ratio(_OURS, MINILM)} of the time of "
            f"ONNX Runtime's float32 on {MINILM} and {ratio(_OURS, BERT_BASE)} on {BERT_BASE}, and `quantize_dynamic` "
            f"with a scale for each column takes {ratio(_PEER, MINILM)} and {ratio(_PEER, BERT_BASE)}."
        )
        yield (
            f"Ours changes the sentence embeddings of {MINILM} by {percent(ours['error'])} and keeps "
            f"{ours['kept']:.0%} of the ten nearest texts, the other by {percent(peer['error'])} and "
            f"{peer['kept']:.0%}."
        )
    names = [name for name in dict.fromkeys(row["contender"] for row in rows) if name != BASE]
    best = min(names, key=lambda name: sum(row["ratio"] for row in rows if row["contender"] == name))
    found = [row for row in rows if row["contender"] == best]
    low, high = (pick(row["ratio"] for row in found) for pick in (min, max))
    yield (
        f"The fastest form is {best}: it takes {low:.2f} to {high:.2f} of the time, with an error of "
        f"{percent(min(row['error'] for row in found))} to {percent(max(row['error'] for row in found))}."
    )


def _slower(rows: Sequence[Mapping[str, Any]]) -> str:
    """Say where the peer is faster than ours by more than the 5 % that is taken for the same time."""
    ratios = {(row["module"], row["tokens"], row["contender"]): row["ratio"] for row in rows}
    places: dict[str, list[str]] = {}
    for model, tokens, name in ratios:
        if name == _OURS and ratios[model, tokens, _OURS] > 1.05 * ratios[model, tokens, _PEER]:
            places.setdefault(model, []).append(str(tokens))
    if not places:
        return "`quantize_dynamic` per channel is nowhere faster by 5 %."
    where = "; ".join(f"{model} at {', '.join(counts)} tokens" for model, counts in places.items())
    return f"`quantize_dynamic` per channel is faster than ours by 5 % and more here: {where}."


def typical(rows: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the rows of the typical length of each model."""
    counts: dict[str, set[int]] = {}
    for row in rows:
        counts.setdefault(row["module"], set()).add(row["tokens"])
    nearest = {model: min(found, key=lambda each: (abs(each - _TYPICAL), each)) for model, found in counts.items()}
    return [row for row in rows if row["tokens"] == nearest[row["module"]]]


def percent(error: float) -> str:
    """Write a relative error."""
    return f"{error:.1e}" if error < 1e-4 else f"{error:.2%}"


def _appendix(results: Mapping[str, Any]) -> Iterator[str]:
    yield "# Low precision, all rows\n\n"
    yield f"Written by `scripts/low_precision.py`; do not edit. [The page]({NAME}.md).\n\n"
    yield f"    {results['command']}\n\n"
    yield fill(_METHOD, 118) + "\n\n"
    if results["texts"]:
        yield f"Texts: {results['texts']['lines']} lines, SHA-256 `{results['texts']['sha256']}`.\n\n"
    yield table(results)


def _threads(results: Mapping[str, Any]) -> str:
    threads = results["environment"]["threads"]
    return "one thread" if threads == 1 else f"{threads} threads"


def _filled(text: str) -> str:
    """Break the lines of paragraphs anew."""
    return "\n\n".join(fill(part, 118, break_on_hyphens=False, break_long_words=False) for part in text.split("\n\n"))


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |\n"
