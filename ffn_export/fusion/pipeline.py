"""Fuse a model: fold weight layouts, raise spellings to operators, write the target's forms, report the sites."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

import onnx_ir as ir
from onnx_ir.passes.common import TopologicalSortPass

from ffn_export.core.one_line import first_line
from ffn_export.core.strict import expose
from ffn_export.exporter import computed_weights, weight_layout
from ffn_export.fusion import batch_of_one, inference, ir_version_3, no_ops, opset, repeated, scopes, synonyms
from ffn_export.fusion.engine import Log, Sweep
from ffn_export.fusion.forms import Forms
from ffn_export.fusion.forms.choice import in_use, undo
from ffn_export.fusion.functions import inline
from ffn_export.fusion.functions.finish import finish
from ffn_export.fusion.functions.portable import remove as remove_portable_functions
from ffn_export.fusion.provenance import notes, rules_of
from ffn_export.fusion.report import FusionReport, SiteKind
from ffn_export.fusion.site_report import report_sites
from ffn_export.fusion.targets import Target, get_target
from ffn_export.fusion.unused import remove_unused
from ffn_export.fusion.views import node_count


@dataclass(frozen=True)
class Fusion:
    """Result of a fusion.

    Attributes:
        model: The fused model.
        report: Status of each site.
        values: Names of the values whose computation changed, in topological order. :func:`rewrite` leaves them
            unchanged if they are passed as ``excluded``.
        forms: The optional forms that were used.
    """

    model: ir.Model
    report: FusionReport
    values: tuple[str, ...] = ()
    forms: Forms = frozenset()


def fuse(
    model: ir.Model, target: str = "ort-cpu", *, portable_functions: bool = False, forms: Collection[str] | None = None
) -> tuple[ir.Model, FusionReport]:
    """Fuse the feed-forward and norm nodes of a model, without running it.

    Args:
        model: Any ONNX model. It is not modified; the result shares its weights.
        target: A name in ``targets.TARGETS``.
        portable_functions: Whether to give the operators of ``com.microsoft`` bodies in standard operators.
        forms: As for :func:`rewrite`.

    Returns:
        The fused model, and the report of its sites.

    Raises:
        UsageError: If no target has this name, or the target does not offer these forms.
    """
    chosen = get_target(target)
    fusion = rewrite(model, target, forms=in_use(forms, chosen))
    return finish(fusion.model, fusion.report, outlines=chosen.outlines, portable_functions=portable_functions)


def rewrite(
    model: ir.Model, target: str = "ort-cpu", excluded: Collection[str] = (), *, forms: Collection[str] | None = None
) -> Fusion:
    """Fuse as :func:`fuse` does, except for the values named in ``excluded``.

    Args:
        model: As for :func:`fuse`.
        target: As for :func:`fuse`.
        excluded: Names of values whose computation must not change.
        forms: Names of the optional forms to use; None for the defaults from the table of costs.

    Raises:
        UsageError: If no target has this name, or the target does not offer these forms.
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
    fused = inline.inlined(fused)
    ir_version_3.free_constants(fused)
    undo(fused)
    scopes.rename_shadowing(fused)
    opset.tell_subgraphs(fused)
    weight_layout.fold(fused)
    computed_weights.fold(fused)
    no_ops.remove(fused)  # if inference failed on one, the whole graph would have no types
    remove_unused(fused)  # a node that no runtime computes proves nothing about shapes
    stated = inference.prove_shapes(fused)
    synonyms.rename(fused)
    no_ops.remove(fused)  # also a Cast to its input's dtype, which is known now
    remove_unused(fused)  # an unused node would count as a reader of its inputs
    repeated.merge(fused)
    batch_of_one.unwrap(fused)
    log, highest, earlier = Log(), opset.ceiling(fused), notes(fused)
    Sweep(chosen.canonical, excluded).apply(fused, log)
    inference.prove_shapes(fused, stated)  # nodes that rules wrote have no types yet
    # Forms consist of canonical operators, so this is a second sweep.
    optional = [form for form in chosen.optional if form.name in used]
    Sweep((*chosen.forms, *(rule for form in optional for rule in form.rules)), excluded).apply(fused, log)
    left: dict[str, Mapping[str, str]] = {}
    for form in optional:
        if form.apply is not None:
            # What was written before may be of a later opset, has no types, and may hold bodies of a Loop.
            opset.raise_to(fused, min(_opset_of_written(fused), highest))
            inference.prove_shapes(fused, stated)
            opset.tell_subgraphs(fused)
            left[form.name] = form.apply(fused, log, excluded)
    remove_unused(fused)
    # A rule that writes no new operator still notes its name on a norm. A runtime may accept that norm in a graph of
    # an older opset, which cannot always be raised.
    opset.raise_to(fused, min(_opset_of_written(fused), highest))
    ir_version_3.raise_version(fused)
    report = FusionReport(
        target=chosen.name,
        sites=report_sites(fused, chosen, used, log, left, earlier),
        rules=dict(sorted(log.applied.items())),
        nodes={"before": before[0], "after": node_count(fused)},
        opset={"before": before[1], "after": fused.opset_imports.get("", 0)},
    )
    stated.restore(fused)
    return Fusion(fused, report, tuple(dict.fromkeys(log.values)), used)


def unchanged(model: ir.Model, target: str) -> FusionReport:
    """Return the report of a model that fusion left unchanged."""
    size, version = node_count(model), model.opset_imports.get("", 0)
    return FusionReport(target, (), nodes={"before": size, "after": size}, opset={"before": version, "after": version})


def fusion_failures(report: FusionReport, required: Mapping[SiteKind, int]) -> tuple[str, ...]:
    """Return a line for each kind with too few sites in the target's form, and one for each site in another form."""
    lines = []
    for kind, count in required.items():
        found = [site for site in report.sites if site.kind == kind]
        if report.count(kind) < count:
            lines.append(
                f"{report.count(kind)} of {len(found)} {kind} sites are in the target's form, {count} required"
            )
            lines += [
                f"{site.id} is {site.status}, {site.name}: {site.reason or site.form}"
                for site in found
                if not site.is_in_target_form
            ]
    return tuple(lines)


def _as_it_came(fusion: Fusion, model: ir.Model) -> Fusion:
    before = unchanged(model, fusion.report.target)
    return replace(
        fusion, model=as_it_came(model), report=replace(fusion.report, nodes=before.nodes, opset=before.opset)
    )


def as_it_came(model: ir.Model) -> ir.Model:
    """Return a copy of the original model, or the model itself if it cannot be copied."""
    try:
        return sorted_copy(model) or model
    except Exception as error:  # noqa: BLE001 - a model that cannot be copied can still be written
        expose(error)
        return model


def sorted_copy(model: ir.Model) -> ir.Model | None:
    """Return a topologically sorted copy that shares the weights; None if the graph has a cycle and cannot run."""
    try:
        return model.clone()
    except (RuntimeError, ValueError):
        # The nodes are not in topological order: onnxruntime accepts that, onnx-ir clones only sorted nodes.
        copied = ir.from_proto(ir.to_proto(model))
    try:
        TopologicalSortPass()(copied)
        return copied.clone()
    except (RuntimeError, ValueError):
        return None


def _opset_of_written(model: ir.Model) -> int:
    """Return the lowest opset that has all operators that rules wrote; 0 if they wrote none."""
    written = (n for n in model.graph.all_nodes() if rules_of(n) and n.domain == "")
    return max((opset.introduced(node.op_type, node.outputs[0].dtype) for node in written), default=0)
