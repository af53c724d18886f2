"""The arithmetic of a graph that loses much in half precision: what each node computes, by kind and dtype.

Most operators compute in the dtype of their result. A norm computes its statistics in that of its ``stash_type``, and
ONNX Runtime's fused operators compute in float32 inside: on half precision, these count as float32. A root of sizes
alone is left out: torch's exporters compute the scale of attention from the width of a head.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

import onnx_ir as ir

from ffn_export.fusion import constants
from ffn_export.parity.checks.computed_nodes import computed_nodes
from ffn_export.parity.reference.sensitive_arithmetic import (
    ATTENTION,
    EXPONENTIAL,
    LAYER_NORM,
    LOGARITHM,
    NORMS,
    POWER,
    PRODUCT,
    RMS_NORM,
    SINE,
    SOFTMAX,
    SUM,
    by_name,
)

_HALF_BYTES = 2
# Operators of the standard domain and of ``com.microsoft`` that compute in the dtype of their result.
_PLAIN = by_name(
    {
        POWER: "Pow Sqrt",
        SUM: "AveragePool CumSum GlobalAveragePool ReduceL1 ReduceMean ReduceSum",
        EXPONENTIAL: "Exp",
        LOGARITHM: "Log",
        SINE: "Cos Sin",
        SOFTMAX: "LogSoftmax Softmax SoftmaxCrossEntropyLoss",
        PRODUCT: "Conv ConvTranspose Einsum FusedConv FusedGemm FusedMatMul Gemm MatMul",
    },
    {
        "InstanceNormalization MeanVarianceNormalization": LAYER_NORM,
        "LpNormalization ReduceL2": RMS_NORM,
        "ReduceLogSum": {SUM: 1, LOGARITHM: 1},
        "ReduceLogSumExp": {EXPONENTIAL: 1, SUM: 1, LOGARITHM: 1},
        "ReduceSumSquare": {POWER: 1, SUM: 1},
    },
)
# Operators with an attribute for the dtype of the statistics, which is float32 by default.
_STASHING = by_name(
    {},
    {
        "GroupNormalization LayerNormalization": LAYER_NORM,
        "RMSNormalization SimplifiedLayerNormalization": RMS_NORM,
    },
)
# Operators that may compute in another dtype than that of their result.
_WITHIN = by_name(
    {
        SOFTMAX: "BiasSoftmax",
        PRODUCT: "ConvInteger DynamicQuantizeMatMul GemmFastGelu MatMulBnb4 MatMulInteger MatMulIntegerToFloat "
        "MatMulNBits QGemm QLinearConv QLinearMatMul",
    },
    {
        "EmbedLayerNormalization GroupNorm SkipGroupNorm SkipLayerNormalization": LAYER_NORM,
        "SkipSimplifiedLayerNormalization": RMS_NORM,
        "DecoderMaskedMultiHeadAttention GroupQueryAttention MultiHeadAttention PackedMultiHeadAttention": ATTENTION,
        "Attention MoE PackedAttention QAttention QMoE": {PRODUCT: 3, SOFTMAX: 1},
    },
)


@dataclass
class NodeArithmetic:
    """What the nodes of a graph compute.

    Attributes:
        wide: Kind -> how often it is computed in float32, or may be.
        half: Kind -> how often it is computed in half precision.
        nodes: Kind -> the nodes that compute it in half precision.
        norms: Norm (:data:`~ffn_export.parity.reference.sensitive_arithmetic.NORMS`) -> the nodes that compute its
            statistics in float32, or may.
    """

    wide: Counter[str] = field(default_factory=Counter)
    half: Counter[str] = field(default_factory=Counter)
    nodes: dict[str, list[ir.Node]] = field(default_factory=lambda: defaultdict(list))
    norms: Counter[str] = field(default_factory=Counter)

    @classmethod
    def of(cls, model: ir.Model) -> NodeArithmetic:
        """Count the nodes that runtimes compute. What cannot be decided counts as float32."""
        found = cls()
        dtypes: dict[ir.Value, ir.DataType] = {}
        of_sizes: set[ir.Value] = set()
        for node in computed_nodes(model):
            note_dtypes(node, dtypes)
            if _is_of_sizes(node, of_sizes):
                of_sizes.update(node.outputs)
            kinds, computed_in = _computed(node, dtypes.get(node.outputs[0]) if node.outputs else None)
            is_half = (
                computed_in is not None and computed_in.is_floating_point() and computed_in.itemsize <= _HALF_BYTES
            )
            if not is_half and node.op_type not in _PLAIN:
                found.norms.update(norm for norm, of_norm in NORMS.items() if kinds is of_norm)
            for kind, count in kinds.items():
                if kind == POWER and node.outputs[0] in of_sizes:
                    continue
                (found.half if is_half else found.wide)[kind] += count
                if is_half:
                    found.nodes[kind].append(node)
        return found


def _is_of_sizes(node: ir.Node, of_sizes: Collection[ir.Value]) -> bool:
    """Whether a node computes with sizes of tensors and constants alone."""
    given = [value for value in node.inputs if value is not None]
    return node.op_type in ("Shape", "Size") or (
        any(value in of_sizes for value in given)
        and all(value in of_sizes or constants.is_constant(value) for value in given)
    )


def _computed(node: ir.Node, dtype: ir.DataType | None) -> tuple[Mapping[str, int], ir.DataType | None]:
    """Return how often a node computes each kind, and in which dtype; None if that is not known."""
    if dtype is not None and not dtype.is_floating_point():
        return {}, None
    if node.domain not in ("", "com.microsoft"):
        return {}, None
    if node.op_type == "Mul" and node.inputs[0] is node.inputs[1]:
        return {POWER: 1}, dtype
    if node.op_type == "Attention" and node.domain == "":
        precision = node.attributes.get("softmax_precision")
        return ATTENTION, dtype if precision is None else None
    if node.op_type in _STASHING:
        stash = node.attributes.get_int("stash_type", ir.DataType.FLOAT.value)
        return _STASHING[node.op_type], ir.DataType(stash)
    if node.op_type in _WITHIN:
        return _WITHIN[node.op_type], None
    return _PLAIN.get(node.op_type, {}), dtype


def note_dtypes(node: ir.Node, dtypes: dict[ir.Value, ir.DataType]) -> None:
    """Note the dtypes of a node's inputs and results; of a result that states none, that of an operand."""
    for value in node.inputs:
        if value is not None and value not in dtypes:
            tensor = value if value.dtype is not None else constants.tensor_of(value)
            if tensor is not None and tensor.dtype is not None:
                dtypes[value] = tensor.dtype
    made = ir.DataType(node.attributes.get_int("to", 0)) if node.op_type == "Cast" else None
    places = {"CastLike": 1, "Where": 1}
    operands = node.inputs[places.get(node.op_type, 0) :]
    if made is None:
        made = next((dtypes[value] for value in operands if value is not None and value in dtypes), None)
    for value in node.outputs:
        dtype = value.dtype if value.dtype is not None else made
        if dtype is not None:
            dtypes[value] = dtype
