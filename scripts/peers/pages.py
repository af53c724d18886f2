"""The page of the results, its appendix with all tables, and their plots, made from the results alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median

from ffn_export.latency.host import STOLEN
from ffn_export.reports.text_file import write_text
from peers import plots, summary, tables
from peers.blocks import threads_text
from peers.competitors import COMPETITORS
from peers.goals import noise
from peers.result import Cell, Results
from peers.shapes import STRUCTURES, THREADS, WIDTHS

_HEAD = """# All tables: {title}

Written by `scripts/benchmark.py`; do not edit. [The summary]({summary}) says what came of it.

"""
_GOALS = """
## Goals

Bars that were set before this run, for one thread and ratios of medians. A goal that was missed is listed like one that
was reached.

"""
_COMPETITORS = """## How it was measured

All competitors ran in turn in one process with the same number of threads, on one sequence of so many tokens, in
float32 unless another precision is named. ONNX Runtime and OpenVINO had up to four sessions of each file, taking turns:
all of them within 4 GiB. Times are medians. A ratio has a 95 % interval from a bootstrap over sessions and the rounds
of each; where it holds 1 the result is a tie. Before it was timed, each output was compared with PyTorch's.
A cell during which the host of the virtual machine gave more than 5 % of the processors' time to others was timed
again, up to three times, as long as the command had patience; the times with the least of it count.

- torch: PyTorch, eager, `inference_mode`; torch.compile: inductor, sizes as symbols, compiled before it is timed
- ort: the export as it is, in a session with all of ONNX Runtime's own optimisations
- onnxscript, ort-transformers: the export after `optimize_for_ort`, and after onnxruntime.transformers' optimiser at
  level 2, in the same kind of session
- quantize-dynamic: onnxruntime's dynamic 8-bit integers, a scale for each column of a weight; ours-int8: those of
  `quantize --int8 --all` without samples
- openvino: the export, told to compute in float32; openvino-bf16: told nothing, where that means bfloat16
- ours: `fuse` for `ort-cpu`, with its session settings; ours-again: the same file in sessions of its own;
  ours-chunked: in a loop over chunks of 384 rows, one chunk below 768, with wide hidden layers split; ours-tuned: what
  `ffn-export tune` chooses for 16, 128 and 512 tokens; ours-8bit: products in 8 bits, blocks of 32, accuracy level 4
- ours-native: `fuse` for `ort-native`, on the execution provider of `native/` in float32; ours-native-bf16 and
  ours-native-int8: the same in these precisions
- bare: the products of the block in ONNX Runtime and nothing else; limit: what a large product and a large read take
  for the same work, as measured on this machine

"""


def write(results: Results, markdown: Path) -> None:
    """Write the page, its appendix beside it, and their plots into a directory of its name.

    Raises:
        UsageError: If one cannot be written.
    """
    folder = markdown.with_suffix("")
    for name, svg in plots.drawn(results.cells).items():
        write_text(svg, folder / name)
    write_text(plots.summary(results.cells), folder / summary.CHART)
    appendix = markdown.with_name(f"{markdown.stem}-tables.md")
    write_text(summary.page(results, folder.name, appendix.name), markdown)
    write_text(page(results, folder.name, markdown.name), appendix)


def page(results: Results, folder: str, markdown: str) -> str:
    """Return the appendix.

    Args:
        results: What was measured.
        folder: Name of the directory of the plots, beside the page.
        markdown: Name of the page that it belongs to.
    """
    cells = [*results.cells, *results.whole]
    parts = [
        _HEAD.format(title=summary.title(results), summary=markdown),
        _where(results),
        _GOALS,
        tables.goals(results),
        *_noise(results),
        *_stolen(cells),
    ]
    parts += [f"\n{_COMPETITORS}", *_blocks(results, folder), *_whole(results), *_lost(cells), *_accuracy(results)]
    parts += [*_export(results), *_checked(cells, results)]
    return "".join(parts)


def _noise(results: Results) -> Iterator[str]:
    for threads in _threads(results.cells):
        found = noise(results, threads)
        if found is not None:
            yield (
                f"\nThe noise, {threads_text(threads)}: loaded a second time, the same file takes {found.low:.3f} to "
                f"{found.high:.3f} of its own time in nine of ten cells; its interval tells the two apart in "
                f"{found.told_apart} of {found.cells}. What differs by less says nothing of a cell.\n"
            )


def _stolen(cells: Sequence[Cell]) -> Iterator[str]:
    watched = [(cell.stolen, cell) for cell in cells if cell.stolen is not None]
    if not watched:
        return
    shares = [share for share, _ in watched]
    most, worst = max(watched, key=lambda each: each[0])
    yield (
        f"The host gave {median(shares):.1%} of the processors' time to others while a cell was timed (median; at most "
        f"{most:.1%}: {worst.name}, {threads_text(worst.threads)}, {worst.tokens_text}; over {STOLEN:.0%} in "
        f"{sum(share > STOLEN for share in shares)} of {len(watched)} cells that were watched).\n"
    )


def _where(results: Results) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in results.environment.versions.items())
    commands = "".join(f"- `{command}`\n" for command in results.commands)
    return (
        f"- begun {results.date}; each command with the commit that it ran at, and --resume keeps what earlier ones "
        f"measured\n{commands}- {results.environment.processor}, {results.environment.system}\n"
        f"- instruction sets: {results.instruction_sets}\n- {versions}\n"
    )


def _blocks(results: Results, folder: str) -> Iterator[str]:
    for threads in _threads(results.cells):
        of_threads = [cell for cell in results.cells if cell.threads == threads]
        yield f"## Blocks, {threads_text(threads)}\n\n{tables.against_each(of_threads)}"
        for preset in dict.fromkeys(cell.model for cell in of_threads):
            file = f"{folder}/{plots.file_name(preset, threads)}"
            shown = [cell for cell in of_threads if cell.model == preset]
            yield f"\n### {preset}, {threads_text(threads)}\n\n![latency over tokens]({file})\n\n"
            yield "Medians in milliseconds.\n\n"
            yield tables.times(shown, list(COMPETITORS))
        yield "\n"


def _whole(results: Results) -> Iterator[str]:
    if not results.whole:
        return
    yield "## Whole models\n\nOne sequence, nothing of it padding. PyTorch runs with the attention that transformers\n"
    yield "takes by default (sdpa), the exports hold eager attention.\n"
    for threads in _threads(results.whole):
        of_threads = [cell for cell in results.whole if cell.threads == threads]
        yield f"\n### {threads_text(threads).capitalize()}\n\n{tables.against_each(of_threads)}"
        for model in dict.fromkeys(cell.model for cell in of_threads):
            shown = [cell for cell in of_threads if cell.model == model]
            yield f"\n{model}, medians in milliseconds:\n\n{tables.times(shown, list(COMPETITORS))}"
    yield "\n"


def _lost(cells: list[Cell]) -> Iterator[str]:
    yield "## Where a peer is faster\n\n"
    lost = tables.losses(cells)
    yield lost or "Nowhere: where no peer is slower, it is a tie.\n"
    apart = tables.taken_apart(cells)
    if apart:
        yield "\n### Where OpenVINO in float32 is faster: what takes the time\n\n"
        yield "Each runtime by its own profiler, which itself takes time; operators of 1 % and more.\n\n"
        yield apart
    yield "\n"


def _accuracy(results: Results) -> Iterator[str]:
    found = results.accuracy
    if found is None:
        return
    yield f"## 8 bits on real activations\n\n{found.sentences} English sentences, {found.tokens} tokens, through "
    yield f"{found.model}; relative L2 of the outputs of each feed-forward on what goes into it.\n\n"
    yield tables.layers(found)
    yield (
        f"\nSentence embeddings, from whole models: relative L2 {found.embedding:.2%}, cosine with its own at least "
        f"{found.cosine:.4f}; {found.same_nearest:.0%} of the sentences keep their nearest other sentence.\n\n"
    )


def _export(results: Results) -> Iterator[str]:
    found = results.export_times
    if found is None:
        return
    yield f"## Export of {found.model}\n\nSeconds, medians of {len(found.torch)} processes each, in turn.\n\n"
    yield f"- `torch.onnx.export(dynamo=True)`: {median(found.torch):.2f}\n"
    yield f"- our export, with its checks: {median(found.export):.2f}; fusing: {median(found.fuse):.3f}\n"
    yield f"- fusing with both graphs run and compared, the default: {median(found.checked_fuse):.2f}\n\n"


def _checked(cells: list[Cell], results: Results) -> Iterator[str]:
    yield "## Outputs beside PyTorch's\n\nThe largest distance over all cells.\n\n"
    yield tables.worst_errors(cells)
    refused = tables.refusals(cells)
    if refused:
        yield f"\n## What was not timed\n\n{refused}"
    for what, why in results.missing.items():
        yield f"\nNot measured: {what}: {why}\n"
    yield from _left_out(cells)


def _left_out(cells: list[Cell]) -> Iterator[str]:
    """Name the blocks that are measured by default and are not here, with one thread or with two."""
    there = {(cell.threads, cell.model, cell.widths) for cell in cells}
    for threads in THREADS:
        missing = [
            f"{preset} {d_model}/{d_ff}"
            for preset in STRUCTURES
            for d_model, d_ff in WIDTHS
            if (threads, preset, (d_model, d_ff)) not in there
        ]
        if missing:
            yield f"\nNot measured with {threads_text(threads)}: {', '.join(missing)}\n"


def _threads(cells: tuple[Cell, ...]) -> list[int]:
    return sorted({cell.threads for cell in cells})
