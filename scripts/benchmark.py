"""Compare fused blocks and whole models with their peers, in turn in one process, and write a page of it.

Peers are PyTorch (eager and compiled), ONNX Runtime on the plain export, two other optimisers for it, and OpenVINO.
The results are written after each group of cells, and --resume goes on with them.
Exit status: 0 measured and written, whatever the figures say; 2 bad usage or bad input; 130 interrupted.
"""

from __future__ import annotations

import argparse
import shlex
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from command_line import count, say, seconds, whole
from ffn_export.errors import FfnExportError, UsageError
from ffn_export.runtimes import environment
from peers import blocks, end_to_end, machine, pages, store
from peers.blocks import Table
from peers.cells import Effort
from peers.competitors import COMPETITORS, chosen
from peers.end_to_end import EndToEnd
from peers.host import PatientHost
from peers.result import Results
from peers.shapes import STRUCTURES, THREADS, WIDTHS
from peers.tune_time import PRESET
from peers.whole_models import WHOLE_MODELS

_DOCS = Path(__file__).parents[1] / "docs"
_TOKENS = (1, 4, 16, 64, 128, 512, 2048, 4096)


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    try:
        if options.only_pages:
            pages.write(store.read(options.json), options.markdown)
        else:
            started = time.monotonic()
            _measure(options, ["python", "scripts/benchmark.py", *(sys.argv[1:] if arguments is None else arguments)])
            say(f"done in {time.monotonic() - started:.0f} s")
    except FfnExportError as error:
        print(f"benchmark: {error}", file=sys.stderr)
        return error.exit_status
    except KeyboardInterrupt:
        print("benchmark: interrupted; --resume goes on from the last group that was finished", file=sys.stderr)
        return 130
    return 0


def _measure(options: argparse.Namespace, command: Sequence[str]) -> None:
    names = chosen(options.peers)
    effort = Effort(options.budget, options.rounds, PatientHost(options.patience))
    table = Table(options.presets, options.widths, options.threads, options.tokens, names, effort)
    results = _begun(options, f"{shlex.join(command)}  # {machine.revision()}")
    for cells in blocks.measured(table, results, say):
        results = results.with_cells(cells)
        store.write(results, options.json)
    if options.end_to_end:
        asked = EndToEnd(
            options.models, options.whole_tokens, options.threads, names, effort, options.export_runs, options.tune_time
        )
        for more in end_to_end.measured(asked, results, say):
            results = more
            store.write(results, options.json)
    store.write(results, options.json)
    pages.write(store.read(options.json), options.markdown)


def _begun(options: argparse.Namespace, command: str) -> Results:
    """Return results without any cell, or those that the JSON file holds.

    Raises:
        UsageError: If these were measured elsewhere or with other versions: they do not go together.
    """
    here = machine.current(max(options.threads))
    if not options.resume or not options.json.is_file():
        return Results(time.strftime("%Y-%m-%d %H:%M"), (command,), here, machine.instruction_sets())
    results = store.read(options.json)
    changed = environment.changes(replace(results.environment, threads=here.threads), here)
    if machine.instruction_sets() != results.instruction_sets:  # clouds name several generations alike
        changed = (*changed, f"instruction sets {results.instruction_sets} -> {machine.instruction_sets()}")
    if changed:
        raise UsageError(f"{options.json} was measured elsewhere ({changed[0]}): leave --resume out and begin again")
    return replace(results, commands=tuple(dict.fromkeys((*results.commands, command))))


def _widths(text: str) -> tuple[int, int]:
    d_model, _, d_ff = text.partition("x")
    try:
        widths = int(d_model), int(d_ff)
    except ValueError:
        widths = 0, 0
    if min(widths) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no pair of widths: write D_MODELxD_FF, such as 768x3072")
    return widths


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="Example: python scripts/benchmark.py --presets bert-ffn --widths 768x3072 --threads 1 --no-end-to-end "
        "--json times.json --markdown times.md",
    )
    models = [name for name, model in WHOLE_MODELS.items() if model.tokens is None]
    add = parser.add_argument
    add(
        "--presets",
        nargs="+",
        choices=list(STRUCTURES),
        default=list(STRUCTURES),
        metavar="NAME",
        help=f"[{' '.join(STRUCTURES)}]",
    )
    add(
        "--widths",
        nargs="+",
        type=_widths,
        default=list(WIDTHS),
        metavar="DxF",
        help=f"d_model and d_ff [{' '.join(f'{d}x{f}' for d, f in WIDTHS)}]",
    )
    add("--tokens", nargs="+", type=count, default=list(_TOKENS), metavar="N", help=f"[{' '.join(map(str, _TOKENS))}]")
    add("--threads", nargs="+", type=count, default=list(THREADS), metavar="N", help="[1 2]")
    add(
        "--peers",
        nargs="+",
        default=list(COMPETITORS),
        metavar="NAME",
        help=f"competitors; torch and ours are always there [{' '.join(COMPETITORS)}]",
    )
    add("--budget", type=seconds, default=0.25, metavar="S", help="seconds for each competitor and cell [0.25]")
    add("--rounds", type=count, default=9, metavar="N", help="rounds of a cell at the least, whatever they take [9]")
    add(
        "--patience",
        type=whole(0),
        default=900,
        metavar="S",
        help="seconds in all to wait while the host of a virtual machine is busy with others [900]",
    )
    add(
        "--end-to-end",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="whole models, 8 bits on real activations, the time of an export and of tuning [yes]",
    )
    add(
        "--models",
        nargs="*",
        choices=models,
        default=models,
        metavar="NAME",
        help=f"whole models, with MiniLM 8 bits on real activations, too; none leaves both out [{', '.join(models)}]",
    )
    add(
        "--whole-tokens",
        nargs="+",
        type=count,
        default=list(end_to_end.TOKENS),
        metavar="N",
        help=f"tokens of whole models [{' '.join(map(str, end_to_end.TOKENS))}]",
    )
    add(
        "--export-runs",
        type=whole(0),
        default=5,
        metavar="N",
        help="exports of BERT-base each way; 0 leaves it out [5]",
    )
    add("--tune-time", action=argparse.BooleanOptionalAction, default=True, help=f"time ffn-export tune {PRESET} [yes]")
    add("--json", type=Path, default=_DOCS / "results-cpu.json", metavar="FILE", help="[docs/results-cpu.json]")
    add(
        "--markdown",
        type=Path,
        default=_DOCS / "results-cpu.md",
        metavar="FILE",
        help="the page; plots go into a folder of its name [docs/results-cpu.md]",
    )
    add("--resume", action="store_true", help="go on with what the JSON file holds")
    add("--only-pages", action="store_true", help="measure nothing: make the page and plots again from the JSON file")
    return parser


if __name__ == "__main__":
    sys.exit(main())
