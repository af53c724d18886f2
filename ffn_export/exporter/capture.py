"""Export a module to ONNX: ``torch.export`` with named axes, then ``torch.onnx.export(dynamo=True)``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import combinations
from pathlib import PurePath
from typing import Any

import onnx
import onnx_ir as ir
import torch
from onnx_ir.passes.common import NameFixPass
from torch.utils._pytree import tree_leaves

from ffn_export.core.one_line import first_line, root_cause
from ffn_export.core.quiet import quiet, silent
from ffn_export.core.strict import expose_own
from ffn_export.core.tensor_spec import TensorSpec, merge_dims
from ffn_export.errors import ExportError
from ffn_export.exporter import attention, clips, decompositions, experts, output_dtypes
from ffn_export.exporter.checks import (
    check_inference_only,
    check_kept_axes,
    check_kept_buffers,
    check_ranges,
    specialised,
)
from ffn_export.exporter.chunked_axis import PiecesAsSlices
from ffn_export.exporter.exact_rules import exact_rules
from ffn_export.exporter.module_state import evaluation_mode
from ffn_export.exporter.outputs import check_result, output_names, register_dataclasses
from ffn_export.exporter.raised_at import raised_at
from ffn_export.exporter.size_guards import check_sizes
from ffn_export.exporter.source import Source
from ffn_export.exporter.traced import spec_at

DEFAULT_OPSET = 20
LOWEST_OPSET = 18  # asked for less, torch's exporter writes 18 with only a log line


def check_opset(opset: int) -> None:
    """Check that torch's exporter writes an opset.

    Raises:
        ExportError: If it does not.
    """
    highest = onnx.defs.onnx_opset_version()
    if not isinstance(opset, int) or not LOWEST_OPSET <= opset <= highest:
        raise ExportError(
            f"opset {opset!r} is not written by torch's exporter here: use --opset {LOWEST_OPSET} to {highest}"
        )


def capture(source: Source, opset: int) -> tuple[torch.export.ExportedProgram, ir.Model]:
    """Trace the source and translate it.

    Returns:
        The exported program, and the ONNX model with the input, output and axis names of the source.

    Raises:
        ExportError: If ``forward`` fails, a requested size is not taken, or the opset is not supported.
    """
    check_opset(opset)
    with evaluation_mode(source.module), experts.as_products(source.module), quiet(), torch.no_grad():
        result = _run(source)
        check_result(result)
        register_dataclasses(result)
        names = source.outputs or output_names(result, [spec.name for spec in source.inputs])
        del result
        program = source.program or _trace(source)
        check_inference_only(program)
        check_kept_buffers(program, source.module, lambda: _run(source))
        traced, program = program, decompositions.decomposed(program)
        check_kept_axes(traced, program, names)
    # Before the translation, which takes longer than the trace.
    check_ranges(program, source.inputs)
    check_sizes(program, source)
    with quiet(), torch.no_grad():
        model = _translate(program, source, names, opset)
    _rename_axes(model, source.inputs)
    return program, model


def _run(source: Source) -> Any:
    """Run the module on the inputs of the trace first: its error is clearer than one from the trace."""
    sizes = source.traced_sizes()
    args, kwargs = source.arguments(sizes)
    try:
        return source.module(*args, **kwargs)
    except Exception as error:
        expose_own(error)
        shapes = ", ".join(f"{spec.name}:{spec.dtype}{list(spec.shape(sizes))}" for spec in source.inputs)
        tied = _tied_axes(source, sizes)
        hint = f"; it works where {tied} are equal: give them one name in --input" if tied else ""
        raise ExportError(f"forward failed on {shapes}: {first_line(error)}{raised_at(error)}{hint}") from error


def _tied_axes(source: Source, sizes: Mapping[str, int]) -> str | None:
    """Return the axes that must be equal for ``forward`` to run, a pair or all, or None."""
    pairs = list(combinations(sizes, 2))
    for group in [*pairs, tuple(sizes)] if pairs else []:
        # At two sizes, so that axes that only need to be even do not count as equal.
        if all(_runs(source, {**sizes, **dict.fromkeys(group, sizes[name])}) for name in group[:2]):
            return " and ".join(map(repr, group))
    return None


def _runs(source: Source, sizes: Mapping[str, int]) -> bool:
    args, kwargs = source.arguments(sizes)
    try:
        source.module(*args, **kwargs)
    except Exception as error:  # noqa: BLE001 - whatever it raises, it does not accept these sizes
        expose_own(error)
        return False
    return True


def _trace(source: Source) -> torch.export.ExportedProgram:
    # Dim.DYNAMIC hints instead of named Dim objects, which turn harmless layout guards (`seq != 1`) into errors.
    hints = {
        name: torch.export.Dim.DYNAMIC(min=dim.minimum, max=dim.maximum)
        for name, dim in merge_dims(source.inputs).items()
    }
    derived = torch.export.Dim.DYNAMIC
    return trace(
        source,
        {
            spec.name: {axis: hints[dim.name] for axis, dim in spec.symbolic.items()}
            | dict.fromkeys(spec.derived, derived)
            for spec in source.inputs
        },
    )


def trace(source: Source, axes: Mapping[str, Mapping[int, Any]]) -> torch.export.ExportedProgram:
    """Trace a source.

    Args:
        source: The source.
        axes: Input name -> axis -> hint of torch.export for its size.

    Raises:
        ExportError: If the module cannot be traced with these axes.
    """
    args, kwargs = source.arguments(source.traced_sizes())
    try:
        # backed_size_oblivious: branches on `size == 0` or `size == 1` add no guards.
        oblivious = torch.fx.experimental._config.patch(backed_size_oblivious=True)  # type: ignore[attr-defined]
        with oblivious, silent(), PiecesAsSlices(), source.call.spelled_out(source.module):
            return torch.export.export(
                source.module, args, kwargs=kwargs, dynamic_shapes=source.by_parameter(axes), strict=False
            )
    except Exception as error:
        expose_own(error)
        raise _explained(error, source) from error


def _explained(error: Exception, source: Source) -> ExportError:
    """Convert an error of torch.export to an ExportError of one line that says what to do."""
    text = str(error)
    fixed = re.search(r"marked L(\[.*?\])\.size\(\)\[(\d+)\] as dynamic but .* constant \((\d+)\)", text)
    if fixed:
        axis, size = int(fixed[2]), int(fixed[3])
        spec = spec_at(source, fixed[1])
        return specialised(spec.symbolic[axis].name, spec.name, size)
    if "data-dependent" in text:
        line = re.search(r'File "([^"]*)", line (\d+), in .*\n\s*(.+)', text)
        where = f" ({PurePath(line[1]).name}, line {line[2]}: {line[3].strip()})" if line else ""
        return ExportError(
            f"forward decides by the values of a tensor{where}, a graph cannot: use torch.where or torch.cond"
        )
    converted = re.search(r"_apply\(\): Couldn't swap (\w+)\.", text)
    if converted:
        return ExportError(
            f"forward converts a {converted[1]} with .to(...), which cannot be traced: convert it before, or its inputs"
        )
    if "LinearPackedParamsBase" in text:
        return ExportError(
            "the module holds layers that PyTorch has quantized, which cannot be traced: export it as it was before, "
            "and store its weights in few bits with `ffn-export quantize`"
        )
    reasons = [line.strip(" -") for line in text.splitlines() if line.lstrip().startswith("- ")]
    reason = reasons[0] if reasons else first_line(error)
    sizes = sorted(set(re.findall(r"\bs\d+\b", reason)))
    if sizes:
        axes = " or ".join(repr(dim.name) for dim in merge_dims(source.inputs).values())
        reason += (
            f" ({', '.join(sizes)}: the size of axis {axes}; if forward takes some sizes only, fix one in --input)"
        )
    return ExportError(f"torch.export cannot trace the module: {reason}{raised_at(error)}")


def _translate(program: torch.export.ExportedProgram, source: Source, names: tuple[str, ...], opset: int) -> ir.Model:
    try:
        with exact_rules(is_half=_has_half(program)):
            onnx_program = torch.onnx.export(
                program,
                dynamo=True,
                input_names=[spec.name for spec in source.inputs],
                output_names=list(names),
                opset_version=opset,
                verbose=False,
            )
    except Exception as error:
        expose_own(error)
        operator = re.search(r"target=torch\.ops\.([\w.]+)", str(error.__cause__))
        raise ExportError(
            f"torch.onnx cannot translate {operator[1] if operator else 'the module'} to opset {opset}: "
            f"{first_line(root_cause(error))}; write it with other operators"
        ) from error
    assert onnx_program is not None
    # torch assigns the requested names last, and only to inputs and outputs: another value may have the same name.
    NameFixPass()(onnx_program.model)
    attention.keep_empty_sizes(onnx_program.model)
    attention.hide_rows(onnx_program.model)
    clips.bound(onnx_program.model)
    output_dtypes.keep(onnx_program.model, program)
    return onnx_program.model


def _has_half(program: torch.export.ExportedProgram) -> bool:
    """Whether a value is in half precision: a weight, or what is computed with one that is cast in ``forward``."""
    graphs = (each.graph for each in program.graph_module.modules() if isinstance(each, torch.fx.GraphModule))
    values = (leaf for graph in graphs for node in graph.nodes for leaf in tree_leaves(node.meta.get("val")))
    return any(isinstance(each, torch.Tensor) and each.dtype in (torch.float16, torch.bfloat16) for each in values)


def _rename_axes(model: ir.Model, specs: tuple[TensorSpec, ...]) -> None:
    """Replace torch's symbols (``s77``) by the user's names of the axes."""
    names: dict[str, str] = {}
    inputs = {value.name: value for value in model.graph.inputs}
    sums = {frozenset(total.terms): total.name for spec in specs for total in spec.derived.values()}
    for spec in specs:
        shape = inputs[spec.name].shape if spec.name in inputs else None
        for axis, dim in enumerate(spec.dims):
            if isinstance(dim, int):
                continue
            symbol = shape[axis] if shape is not None else None
            if isinstance(symbol, ir.SymbolicDim) and symbol.value is not None:
                names.setdefault(str(symbol.value), dim.name)
    pattern = re.compile("|".join(rf"\b{re.escape(name)}\b" for name in names) or r"(?!)")

    def renamed(symbol: str) -> str:
        text = pattern.sub(lambda m: names[m[0]], symbol)
        return sums.get(frozenset(text.split(" + ")), text)

    def rename(value: ir.Value) -> None:
        if value.shape is not None and not value.shape.is_static():
            value.shape = ir.Shape(
                renamed(str(dim.value)) if isinstance(dim, ir.SymbolicDim) and dim.value is not None else dim
                for dim in value.shape
            )

    for value in (*model.graph.inputs, *(out for node in model.graph.all_nodes() for out in node.outputs)):
        rename(value)
