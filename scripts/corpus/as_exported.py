"""Real graphs as a target writes them, compared with the graphs as exported."""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from textwrap import fill
from typing import Any

import numpy as np
import onnx_ir as ir
import onnxruntime

from corpus.entry import CHECKED, Architecture, Array
from corpus.export import export
from corpus.peers import silent
from ffn_export.core import onnx_file
from ffn_export.core.one_line import first_line
from ffn_export.fusion.forms import AS_ONE_NODE
from ffn_export.fusion.functions.contract import KINDS
from ffn_export.fusion.inference import prove_shapes
from ffn_export.fusion.pipeline import fuse
from ffn_export.fusion.targets import NATIVE
from ffn_export.fusion.views import int_of, is_standard, rank
from ffn_export.parity.judging.metrics import relative_l2
from ffn_export.runtimes.base import Artifact
from ffn_export.runtimes.ort_native import FLOAT32
from ffn_export.runtimes.session_options import NO_OPTIMIZER, SessionSettings

# Largest relative L2 error of an output against the exported graph; both compute in float32.
ALLOWED = 1e-5
BEGIN, END = "<!-- written by scripts/fusion_corpus.py --target ort-native -->\n", "<!-- end -->"


@dataclass(frozen=True)
class Compared:
    """What came of one architecture.

    Attributes:
        name: Of the architecture.
        failure: Why there is no graph, or no result.
        nodes: Kind of node -> number of nodes.
        attentions_left: Softmax nodes of attention that are in no node.
        error: Worst relative L2 error of an output, if there are nodes.
        bodies_error: The same with the bodies of native nodes, on the CPU provider.
    """

    name: str
    failure: str | None = None
    nodes: Mapping[str, int] = field(default_factory=dict)
    attentions_left: int = 0
    error: float | None = None
    bodies_error: float | None = None

    def fault(self) -> str | None:
        """Return what is wrong, or None."""
        if self.failure is not None:
            return self.failure
        for name, error in (("outputs", self.error), ("those of the bodies", self.bodies_error)):
            if error is not None and not error <= ALLOWED:
                return f"{name} differ from the exported graph: {error:.1e}"
        return None


def run(entry: Architecture, target: str, graphs: Path | None = None) -> Compared:
    """Export an architecture, fuse it, and run it as it was exported, as it was fused, and by the bodies of nodes.

    Args:
        entry: The architecture.
        target: The target, which ONNX Runtime runs on the CPU provider or with native kernels.
        graphs: A folder where exported graphs are kept and found again; None keeps none.
    """
    with tempfile.TemporaryDirectory(prefix="ffn-corpus-") as scratch, silent():
        path = (graphs or Path(scratch)) / f"{entry.name}.onnx"
        try:
            if not path.is_file():
                export(entry, entry.module(), path)
            fused, report = fuse(onnx_file.load(path), target)
            left = _attentions(fused)
            made = Path(scratch) / "fused.onnx"
            onnx_file.save(fused, made)
            feeds = [entry.feeds(sizes) for sizes in (CHECKED if entry.axes else CHECKED[:1])]
            nodes = report.outlined or {name: report.rules[name] for name in AS_ONE_NODE if name in report.rules}
            if not nodes:
                return Compared(entry.name, attentions_left=left)
            exported = _on_cpu(path, NO_OPTIMIZER)
            on_cpu = _worst(exported, _on_cpu(made, SessionSettings()), feeds)
            if target != NATIVE:
                return Compared(entry.name, None, nodes, left, on_cpu)
            native = _worst(exported, FLOAT32.proven_session(Artifact(made), 1), feeds)
        except Exception as error:  # noqa: BLE001 - whatever ends it is a result
            return Compared(entry.name, f"{type(error).__name__}: {first_line(error)}")
        return Compared(entry.name, None, dict(report.outlined), left, native, on_cpu)


def _on_cpu(path: Path, settings: SessionSettings) -> onnxruntime.InferenceSession:
    options = settings.session_options(1)
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def _worst(
    exported: onnxruntime.InferenceSession, made: onnxruntime.InferenceSession, feeds: Sequence[Mapping[str, Array]]
) -> float:
    """Return the worst relative L2 error of an output; infinity where a shape or a NaN differs."""
    errors = [
        _relative_l2(np.asarray(got), np.asarray(wanted))
        for given in feeds
        for wanted, got in zip(exported.run(None, dict(given)), made.run(None, dict(given)), strict=True)
    ]
    return max(errors)


def _relative_l2(got: Array, wanted: Array) -> float:
    if got.shape != wanted.shape:
        return float("inf")
    error = relative_l2(got, wanted)
    return error if np.isfinite(error) else float("inf")


def _attentions(model: ir.Model) -> int:
    """Return the number of Softmax nodes over the last of three axes or more."""
    stated = prove_shapes(model)
    found = 0
    for node in model.graph.all_nodes():
        axes = rank(node.outputs[0])
        is_last = axes is None or int_of(node, "axis", -1) in (-1, axes - 1)
        found += is_standard(node, "Softmax") and is_last and axes != 2
    stated.restore(model)
    return found


def line(result: Compared) -> str:
    """Return a result as one line."""
    fault = result.fault()
    counts = ", ".join(f"{kind} {count}" for kind, count in result.nodes.items()) or "no node"
    left = f", {result.attentions_left} attentions left" if result.attentions_left else ""
    error = "" if result.error is None else f", error {result.error:.1e}"
    return f"{result.name}: {fault or 'right'}; {counts}{left}{error}"


def summary(results: Sequence[Compared]) -> str:
    """Return what all results are, as one line."""
    counts, errors = Counter[str](), [each.error for each in results if each.error is not None]
    for each in results:
        counts.update(each.nodes)
    nodes = ", ".join(f"{kind} {count}" for kind, count in counts.items()) or "no node"
    faults = sum(each.fault() is not None for each in results)
    return f"{len(results)} graphs, {faults} failures; {nodes}; worst error {max(errors, default=0):.1e}"


def stored(results: Sequence[Compared], versions: Mapping[str, str]) -> str:
    """Return the results as the text of a JSON file."""
    return json.dumps({"versions": dict(versions), "results": [asdict(each) for each in results]}, indent=1) + "\n"


def words(data: Mapping[str, Any]) -> str:
    """Return what stored results say, as Markdown."""
    results = [Compared(**each) for each in data["results"]]
    counts = Counter[str]()
    for result in results:
        counts.update(result.nodes)
    with_nodes = [result for result in results if result.error is not None]
    faults = [result for result in results if result.fault() is not None]
    worst = max(with_nodes, key=lambda result: result.error or 0)
    kinds = ", ".join(f"{counts[kind]} `{kind}`" for kind in KINDS)
    none = [result.name for result in results if result.error is None]
    left = [result.name for result in with_nodes if result.attentions_left]
    sentences = [
        f"Of {len(results)} graphs, {len(with_nodes)} have nodes: {kinds}.",
        f"{len(faults)} differ from the exported graph; the worst relative L2 error of an output is {worst.error:.1e}, "
        f"of {worst.name}.",
        f"Without nodes are {', '.join(none)}. Attention is left in {len(left)}: {', '.join(left)}.",
    ]
    return fill(" ".join(sentences), 118, break_on_hyphens=False) + "\n"


def stored_beside(page: Path) -> Path:
    """Return the file of the results that a page tells."""
    return page.with_name(f"{page.stem}-corpus.json")


def write_page(page: Path) -> None:
    """Write what the results beside a page say into its place in the page."""
    data = json.loads(stored_beside(page).read_text())
    before, _, rest = page.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    page.write_text(f"{before}{BEGIN}\n{words(data)}\n{END}{after}")
