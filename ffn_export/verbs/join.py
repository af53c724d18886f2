"""``join``: one bundle of bundles that were built on different kinds of processor."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ffn_export.bundle.join import Part, read_parts, write_joined
from ffn_export.bundle.publish import check_destination, staging
from ffn_export.core.types import Progress, silent
from ffn_export.errors import GateError
from ffn_export.parity.judging.result import ParityResult
from ffn_export.parity.judging.tolerances import Tolerances
from ffn_export.runtimes.threads import chosen_threads
from ffn_export.verbs.compared import reference_of
from ffn_export.verbs.open_model import OpenModel
from ffn_export.verbs.source_spec import SourceSpec, evaluating
from ffn_export.verbs.verify import judged


def join(
    bundles: Sequence[Path | str],
    directory: Path | str,
    *,
    runtimes: Sequence[str] | None = None,
    threads: int | None = None,
    fast: bool = False,
    trust: bool = False,
    progress: Progress = silent,
) -> dict[str, ParityResult]:
    """Join bundles of one model that were built on different kinds of processor.

    The joined bundle has the graph of each and their weights once. :func:`load` takes the graph for the machine that
    it is on, or else that of the first bundle. Before the bundle is written, each graph is verified on this machine
    against the reference of the first bundle.

    Args:
        bundles: Two bundles or more; the first is the default.
        directory: Directory of the joined bundle. An existing bundle is replaced, also one of those that are joined.
        runtimes: Names of required runtimes; None means every runtime that can run the model here.
        threads: Intra-op threads; None means the number of processors available to this process.
        fast: Whether to verify on a few cases only.
        trust: Whether to verify against the source that the first manifest names, if it is no preset, and so import
            it; otherwise its test vectors are the reference.
        progress: Called with a line for each step.

    Returns:
        File of each graph -> its verification on this machine.

    Raises:
        GateError: If a graph fails its verification; nothing is written.
        UsageError: If the bundles are not of one model, two are for one kind of processor, or the destination cannot
            be written to.
        IntegrityError: If a directory is no bundle, or a file differs from its manifest.
        RuntimeUnavailableError: If a runtime requested by name cannot run here.

    Examples:
        >>> fx.join(["exported/d2l-ffn"], "joined")
        Traceback (most recent call last):
        ffn_export.errors.UsageError: there is nothing to join: name two bundles or more
    """
    destination = Path(directory).absolute()
    check_destination(destination)
    parts = read_parts([Path(bundle) for bundle in bundles])
    with staging(destination) as stage:
        progress(f"joining {len(parts)} graphs")
        manifest = write_joined(parts, stage.directory, destination.name)
        graphs = [
            OpenModel(stage.directory / file, each.session_options, stage.directory, each)
            for file, each in manifest.graphs.items()
        ]
        verified = _verified(graphs, parts, runtimes, chosen_threads(threads), progress, fast=fast, trust=trust)
        stage.publish()
    return verified


def _verified(
    graphs: Sequence[OpenModel],
    parts: Sequence[Part],
    runtimes: Sequence[str] | None,
    threads: int,
    progress: Progress,
    *,
    fast: bool,
    trust: bool,
) -> dict[str, ParityResult]:
    """Verify each graph against the reference of the first.

    Raises:
        GateError: On the first that fails.
    """
    found: dict[str, ParityResult] = {}
    reference = reference_of(graphs[0], SourceSpec(trust=trust), threads)
    with evaluating(reference.source):
        for graph, part in zip(graphs, parts, strict=True):
            assert graph.manifest is not None
            progress(f"verifying {graph.path.name}, for {graph.manifest.processor}")
            allowed = Tolerances.from_dict(graph.manifest.tolerances).declared()
            result = judged(
                graph, reference, runtimes=runtimes, fast=fast, tolerances=allowed, threads=threads, progress=progress
            )
            if not result.passed:
                raise GateError(
                    f"{part.directory / part.file} fails its verification here: {result.failures[0]}", result
                )
            found[graph.path.name] = result
    return found
