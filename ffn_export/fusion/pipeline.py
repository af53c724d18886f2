"""The fusion as one call: fold weight layouts, write canonical and target's forms, report."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace

import onnx_ir as ir
from onnx_ir.passes.common import TopologicalSortPass

from ffn_export.core.one_line import first_line
from ffn_export.core.strict import expose
from ffn_export.exporter import weight_layout
from ffn_export.fusion import batch_of_one, functions, inference, ir_version_3, no_ops, opset, scopes, synonyms
from ffn_export.fusion.by_rows.rewrite import by_rows
from ffn_export.fusion.decisions import GEMM, PADDED, in_use
from ffn_export.fusion.engine import Log, Sweep
from ffn_export.fusion.finish import finish
from ffn_export.fusion.forms import Forms
from ffn_export.fusion.padded_widths.pad import pad_widths
from ffn_export.fusion.padded_widths.remove import remove as remove_padding
from ffn_export.fusion.portable_functions import remove as remove_portable_functions
from ffn_export.fusion.provenance import rules_of
from ffn_export.fusion.report import FusionReport, SiteKind
from ffn_export.fusion.rule import Rule
from ffn_export.fusion.site_report import report_sites
from ffn_export.fusion.targets import Target, get_target
from ffn_export.fusion.views import is_read

# Where onnx-ir keeps a value's quantisation annotation: the names of initialisers that no node need read.
_ANNOTATION = "quant_parameter_tensor_names"


@dataclass(frozen=True)
class Fusion:
    """What a fusion made.

    Attributes:
        model: The fused model.
        report: What became of each site.
        values: Names of the values whose computation changed, in the order of the data; giving them to
            :func:`rewrite` as ``excluded`` leaves each as it was.
        forms: The forms that were used of those which the target leaves open.
    """

    model: ir.Model
    report: FusionReport
    values: tuple[str, ...] = ()
    forms: Forms = field(default_factory=Forms)


def fuse(
    model: ir.Model,
    target: str = "ort-cpu",
    *,
    outline: bool = False,
    portable_functions: bool = False,
    forms: Forms | None = None,
) -> tuple[ir.Model, FusionReport]:
    """Fuse the feed-forward and norm nodes of a model, without running it.

    Args:
        model: Any ONNX model; it is left unchanged, and the result shares its weights.
        target: A name in ``targets.TARGETS``.
        outline: Make each feed-forward one node, of a model-local function.
        portable_functions: Give the operators of ``com.microsoft`` bodies in standard operators.
        forms: As for :func:`rewrite`.

    Returns:
        The fused model, and what became of each site.

    Raises:
        UsageError: No target has this name, or it does not leave these forms open.
    """
    fusion = rewrite(model, target, forms=in_use(forms, get_target(target), outline=outline))
    return finish(fusion.model, fusion.report, outline=outline, portable_functions=portable_functions)


def rewrite(
    model: ir.Model, target: str = "ort-cpu", excluded: Collection[str] = (), *, forms: Forms | None = None
) -> Fusion:
    """Fuse as :func:`fuse` does, but for values that are named.

    Args:
        model: As for :func:`fuse`.
        target: As for :func:`fuse`.
        excluded: Names of values whose computation stays as it is.
        forms: Which of the forms that the target leaves open are used; None means what the table of costs says.

    Raises:
        UsageError: No target has this name, or it does not leave these forms open.
    """
    chosen = get_target(target)
    used = in_use(forms, chosen)
    try:
        fused = sorted_copy(model)
        if fused is not None:
            fusion = _rewritten(fused, chosen, used, excluded)
            lost_inputs = len(fusion.model.graph.inputs) < len(model.graph.inputs)
            return _as_it_came(fusion, model) if lost_inputs and not fusion.values else fusion
    except Exception as error:  # noqa: BLE001 - a fault of ours costs the fusion, not the model
        expose(error)
        problem = f"fusing raised {first_line(error)}: the model is left as it was"
        return Fusion(as_it_came(model), replace(unchanged(model, target), problem=problem), forms=used)
    return Fusion(ir.from_proto(ir.to_proto(model)), unchanged(model, target), forms=used)


def _rewritten(fused: ir.Model, chosen: Target, used: Forms, excluded: Collection[str]) -> Fusion:
    """Rewrite a copy of a model, in place."""
    opset.normalise(fused)
    before = node_count(fused), fused.opset_imports.get("", 0)
    remove_portable_functions(fused)
    fused = functions.inlined(fused)
    ir_version_3.free_constants(fused)
    remove_padding(fused)
    scopes.rename_shadowing(fused)
    opset.tell_subgraphs(fused)
    weight_layout.fold(fused)
    no_ops.remove(fused)  # one that inference stumbles over would leave the whole graph without types
    _remove_unused(fused)  # what no runtime computes proves nothing
    stated = inference.prove_shapes(fused)
    synonyms.rename(fused)
    no_ops.remove(fused)  # and a Cast is one where the dtypes say so
    _remove_unused(fused)  # what nobody reads would be a reader of its inputs
    batch_of_one.unwrap(fused)
    log, highest = Log(), opset.ceiling(fused)
    Sweep(chosen.canonical, excluded).apply(fused, log)
    inference.prove_shapes(fused, stated)  # what a rule wrote has no types yet
    # Forms are made of canonical operators, so the first sweep has ended.
    Sweep(_in_use(chosen, used), excluded).apply(fused, log)
    left = _by_rows(fused, stated, used, log, excluded)
    unpadded = _padded(fused, stated, used, log, excluded)
    _remove_unused(fused)
    # A rule that writes no operator notes its work on a norm that may stand, by a runtime's leave, in an older graph.
    opset.raise_to(fused, min(_opset_of_written(fused), highest))
    ir_version_3.raise_version(fused)
    report = FusionReport(
        target=chosen.name,
        sites=report_sites(fused, chosen, used, log, {"by rows": left, "padded": unpadded}),
        rules=dict(sorted(log.applied.items())),
        nodes={"before": before[0], "after": node_count(fused)},
        opset={"before": before[1], "after": fused.opset_imports.get("", 0)},
    )
    stated.restore(fused)
    return Fusion(fused, report, tuple(dict.fromkeys(log.values)), used)


def _in_use(target: Target, forms: Forms) -> tuple[type[Rule], ...]:
    return (*target.forms, *(rule for rule in target.open_forms if rule.name in forms.rules))


def _by_rows(
    model: ir.Model, stated: inference.Stated, forms: Forms, log: Log, excluded: Collection[str]
) -> dict[str, str]:
    if GEMM not in forms.rules and forms.chunk is None and not forms.pieces:
        return {}
    inference.prove_shapes(model, stated)
    return by_rows(model, log, forms, excluded)


def _padded(
    model: ir.Model, stated: inference.Stated, forms: Forms, log: Log, excluded: Collection[str]
) -> dict[str, str]:
    if PADDED not in forms.rules:
        return {}
    inference.prove_shapes(model, stated)  # also of what was written by rows
    return pad_widths(model, log, excluded)


def unchanged(model: ir.Model, target: str) -> FusionReport:
    """Return the report of a model that is left as it came."""
    size, version = node_count(model), model.opset_imports.get("", 0)
    return FusionReport(target, (), nodes={"before": size, "after": size}, opset={"before": version, "after": version})


def fusion_failures(report: FusionReport, required: Mapping[SiteKind, int]) -> tuple[str, ...]:
    """Return a line for each kind of site of which fewer are fused than required, and one for each that is not."""
    lines = []
    for kind, count in required.items():
        found = [site for site in report.sites if site.kind == kind]
        if report.count(kind) < count:
            lines.append(f"{report.count(kind)} of {len(found)} {kind} sites are fused, {count} required")
            lines += [
                f"{site.id} is {site.status.replace('_', ' ')}, {site.name}: {site.reason or site.form}"
                for site in found
                if site.status != "fused"
            ]
    return tuple(lines)


def node_count(model: ir.Model) -> int:
    """Return the number of nodes, subgraphs included and constants left out."""
    return sum(node.op_type != "Constant" for node in model.graph.all_nodes())


def _as_it_came(fusion: Fusion, model: ir.Model) -> Fusion:
    before = unchanged(model, fusion.report.target)
    return replace(
        fusion, model=as_it_came(model), report=replace(fusion.report, nodes=before.nodes, opset=before.opset)
    )


def as_it_came(model: ir.Model) -> ir.Model:
    """Copy a model that nothing has changed; the model itself where it cannot be copied."""
    try:
        return sorted_copy(model) or model
    except Exception as error:  # noqa: BLE001 - what cannot be copied can still be written
        expose(error)
        return model


def sorted_copy(model: ir.Model) -> ir.Model | None:
    """Copy the graph and share the weights; None where the nodes have no order, so that nothing can run it."""
    try:
        return model.clone()
    except (RuntimeError, ValueError):
        # Nodes in another order than that of the data: onnxruntime takes them, onnx-ir clones them sorted.
        copied = ir.from_proto(ir.to_proto(model))
    try:
        TopologicalSortPass()(copied)
        return copied.clone()
    except (RuntimeError, ValueError):
        return None


def _values(model: ir.Model) -> Iterator[ir.Value]:
    for graph in (model.graph, *model.graph.subgraphs()):
        yield from (*graph.inputs, *graph.initializers.values())
        yield from (value for node in graph for value in node.outputs)


def _remove_unused(model: ir.Model) -> None:
    """Remove nodes and initialisers that nothing reads; onnx-ir's own pass takes nodes without outputs too."""
    annotating = {name for value in _values(model) for name in value.meta.get(_ANNOTATION, {}).values()}
    for graph in reversed((model.graph, *model.graph.subgraphs())):  # a subgraph before what it reads
        for node in reversed(graph):
            if node.outputs and not any(map(is_read, node.outputs)):
                graph.remove(node, safe=True)
        for name, value in list(graph.initializers.items()):
            if not is_read(value) and not value.is_graph_input() and name not in annotating:
                del graph.initializers[name]


def _opset_of_written(model: ir.Model) -> int:
    """Return the opset that the operators need that rules wrote; others need what they came with."""
    written = (n for n in model.graph.all_nodes() if rules_of(n) and n.domain == "")
    return max((opset.introduced(node.op_type, node.outputs[0].dtype) for node in written), default=0)
