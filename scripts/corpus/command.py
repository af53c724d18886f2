"""The command line of the corpus."""

from __future__ import annotations

import json
import sys
import time
from functools import partial
from pathlib import Path

import click

from corpus import as_exported, baseline, chart, trial
from corpus.architectures import ARCHITECTURES, by_name
from corpus.page import page, tables, versions
from corpus.result import Optimised, Result
from corpus.runner import run_all
from corpus.scorer import KINDS
from ffn_export.errors import did_you_mean
from ffn_export.fusion.targets import NATIVE
from ffn_export.runtimes.ort_native import FLOAT32, provider_problem

_DOCS = Path(__file__).parents[2] / "docs"
_PAGES = {trial.TARGET: _DOCS / "fusion-coverage.md", NATIVE: _DOCS / "native.md"}
_ON_CPU = "ort-cpu"
_EPILOG = """\b
Example: python scripts/fusion_corpus.py --only bert --only llama --no-peers
Exit status: 0 nothing that was fused is lost; 1 something is, or a graph is wrong; 2 bad usage."""


@click.command(epilog=_EPILOG)
@click.option(
    "--target",
    type=click.Choice([*_PAGES, _ON_CPU]),
    default=trial.TARGET,
    show_default=True,
    help="ort-cpu and ort-native only compare the graphs with the exported ones, the latter with native kernels.",
)
@click.option("--only", multiple=True, metavar="NAME", help="An architecture to run; once for each.  [all]")
@click.option("--no-peers", is_flag=True, help="Leave the other optimisers out, and the page as it is.")
@click.option("--jobs", type=click.IntRange(1), default=2, show_default=True, help="Processes, each with one thread.")
@click.option("--update", is_flag=True, help="Take what is fused now as what has to be.")
@click.option("--json", "json_file", type=click.Path(path_type=Path), help="Write every result to a file.")
@click.option(
    "--page",
    "page_file",
    type=click.Path(path_type=Path),
    help="Where the page goes when all ran with the others; its appendix and the results, as JSON, go beside it.  "
    "[docs/fusion-coverage.md; of ort-native, docs/native.md]",
)
@click.option("--only-pages", is_flag=True, help="Run nothing: make the pages again from the results beside the page.")
@click.option(
    "--graphs",
    type=click.Path(path_type=Path, file_okay=False),
    help="Keep exported graphs in a folder, and take those that are there.",
)
def main(
    target: str,
    only: tuple[str, ...],
    no_peers: bool,
    jobs: int,
    update: bool,
    json_file: Path | None,
    page_file: Path | None,
    only_pages: bool,
    graphs: Path | None,
) -> None:
    """Fuse real architectures, and fail when a site that was complete no longer is, or a graph is wrong.

    Each is exported, fused, run at other sizes against PyTorch, and read by a scorer that shares no code with the
    fuser; ONNX Runtime's, onnxscript's and onnxruntime.transformers' optimisers get the same graphs.
    """
    entries = by_name()
    page_file = page_file or _PAGES.get(target)
    if only_pages:
        _write_again(target, page_file)
        return
    for name in only:
        if name not in entries:
            near = did_you_mean(name, entries) or " docs/fusion-coverage.md lists them"
            raise click.BadParameter(f"unknown name {name!r};{near}", param_hint="--only")
    if graphs is not None:
        graphs.mkdir(parents=True, exist_ok=True)
    names = [name for name in entries if not only or name in only]
    if page_file is None or target != trial.TARGET:
        sys.exit(_as_exported(target, names, jobs, json_file, page_file, graphs))
    started = time.monotonic()
    results: list[Result] = []
    run = partial(trial.run, with_peers=not no_peers, graphs=graphs)
    for result in run_all(names, jobs, run, lambda name: Result(name, ours=Optimised("crashed: the process died"))):
        results.append(result)
        click.echo(f"[{len(results)}/{len(names)}] {line(result)}", err=True)
    results.sort(key=lambda result: names.index(result.name))
    if json_file is not None:
        json_file.write_text(json.dumps([result.to_dict() for result in results], indent=1))
    if not only and not no_peers:
        stored = {"versions": versions(), "results": [result.to_dict() for result in results]}
        page_file.with_suffix(".json").write_text(json.dumps(stored, indent=1) + "\n")
        write_pages(page_file)
    if update:
        baseline.write(results, entries)
    failures = baseline.failures(results, baseline.read())
    for failure in failures:
        click.echo(failure)
    click.echo(f"{len(results)} graphs, {len(failures)} failures in {time.monotonic() - started:.0f} s", err=True)
    sys.exit(1 if failures else 0)


def _write_again(target: str, page_file: Path | None) -> None:
    if page_file is None:
        raise click.UsageError(f"{target} has no page")
    (as_exported.write_page if target == NATIVE else write_pages)(page_file)


def _as_exported(
    target: str, names: list[str], jobs: int, json_file: Path | None, page_file: Path | None, graphs: Path | None
) -> int:
    """Compare the graphs of a target with the exported ones, and return the exit status."""
    problem = provider_problem(FLOAT32.precision) if target == NATIVE else None
    if problem is not None:
        raise click.ClickException(problem)
    results: list[as_exported.Compared] = []
    run = partial(as_exported.run, target=target, graphs=graphs)
    for result in run_all(names, jobs, run, lambda name: as_exported.Compared(name, "the process died")):
        results.append(result)
        click.echo(f"[{len(results)}/{len(names)}] {as_exported.line(result)}", err=True)
    results.sort(key=lambda result: names.index(result.name))
    stored = as_exported.stored(results, versions())
    if json_file is not None:
        json_file.write_text(stored)
    if page_file is not None and len(names) == len(by_name()):
        as_exported.stored_beside(page_file).write_text(stored)
        as_exported.write_page(page_file)
    failures = [as_exported.line(result) for result in results if result.fault() is not None]
    for failure in failures:
        click.echo(failure)
    click.echo(as_exported.summary(results), err=True)
    return 1 if failures else 0


def write_pages(page_file: Path) -> None:
    """Write the page, its chart and its appendix from the results stored beside them, and from nothing else."""
    stored = json.loads(page_file.with_suffix(".json").read_text())
    results = [Result.from_dict(each) for each in stored["results"]]
    text = page(results, stored["versions"])
    page_file.write_text(text)
    chart.draw(*chart.complete(text), page_file.with_suffix(".svg"))
    skipped = [entry for entry in ARCHITECTURES if entry.skipped]
    page_file.with_name(f"{page_file.stem}-tables.md").write_text(tables(results, by_name(), skipped))


def line(result: Result) -> str:
    """Return a result as one line."""
    if result.ours is None:
        return f"{result.name}: no graph: {result.failure}"
    score = result.ours.score
    counts = ", ".join(f"{kind} {score.complete[kind]}/{score.found[kind]}" for kind in KINDS) if score else ""
    return f"{result.name}: {result.ours.verdict}; {counts}"
