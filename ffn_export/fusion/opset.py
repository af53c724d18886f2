"""Raise a graph's opset, only if that provably changes nothing.

Between two opsets most operators only gain element types. A node has the same meaning under both if the schemas agree
in inputs, outputs and attributes, and no element type was removed. Other operators are rewritten if ``adapters`` covers
them; otherwise the graph keeps its opset.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, MutableMapping, Sequence

import onnx
import onnx_ir as ir

from ffn_export.core.words import words
from ffn_export.fusion.adapters import ADAPTERS
from ffn_export.fusion.builder import Names

# onnxruntime 1.31 refuses a model of opset 27 or higher.
HIGHEST_OPSET = 26

# Operators for which onnxruntime 1.31 has a CPU kernel of an earlier version, and none of opset 22: the raised graph
# would not load. Found by loading ONNX's tests of every operator at opsets 14 to 24.
_NO_KERNEL_OF_22 = words(
    "Bernoulli GlobalLpPool MaxRoiPool Multinomial RandomNormal RandomNormalLike RandomUniform RandomUniformLike "
    "RoiAlign"
)

# Operators that onnxruntime 1.31 runs by their function body, only up to this opset.
_BODY_ONLY_AT = {"Swish": 24}

# Attributes that a later version added, with the earlier behaviour as default. Those of Cast concern float8 and the
# rounding to it; those of (De)QuantizeLinear concern dtypes and blocks that no earlier version had.
_NEUTRAL_ADDITIONS = frozenset(
    {
        *((operator, name) for operator in ("Cast", "CastLike") for name in ("saturate", "round_mode")),
        *(("QuantizeLinear", name) for name in ("saturate", "block_size", "output_dtype", "precision")),
        *(("DequantizeLinear", name) for name in ("block_size", "output_dtype")),
        *(("Resize", name) for name in ("antialias", "axes", "keep_aspect_ratio_policy")),
        *((operator, "layout") for operator in ("LSTM", "GRU", "RNN")),
        *(("Constant", f"value_{kind}") for kind in ("int", "ints", "float", "floats", "string", "strings")),
        ("Constant", "sparse_value"),
        ("ArgMax", "select_last_index"),
        ("ArgMin", "select_last_index"),
        ("AveragePool", "dilations"),
        ("Reshape", "allowzero"),
        ("ScatterElements", "reduction"),
        ("ScatterND", "reduction"),
        ("Shape", "start"),
        ("Shape", "end"),
    }
)


def normalise(model: ir.Model) -> None:
    """Import the default domain under its usual name, the empty string, in place of its synonym ``ai.onnx``."""
    for imports in _all_imports(model):
        if "ai.onnx" in imports:
            imports.setdefault("", imports.pop("ai.onnx"))


def tell_subgraphs(model: ir.Model) -> None:
    """Copy the opset imports of the model to each subgraph: rules and forms ask the graph of a node for the opset."""
    for graph in model.graph.subgraphs():
        graph.opset_imports.update(model.opset_imports)


def ceiling(model: ir.Model) -> int:
    """Return the highest opset that the model can be raised to without changing the result of any node."""
    current = model.opset_imports.get("", HIGHEST_OPSET)
    # A function has opset imports of its own, which the checker requires to agree with the model's.
    nodes = [(node, current) for node in model.graph.all_nodes() if node.domain == ""]
    for function in model.functions.values():
        own = function.opset_imports.get("", current)
        nodes += [(node, own) for node in function.all_nodes() if node.domain == ""]
    adapted = [(node, low) for node, low in nodes if node.op_type in ADAPTERS]
    plain = {(node.op_type, low) for node, low in nodes if node.op_type not in ADAPTERS}
    reachable = current
    for version in range(current + 1, HIGHEST_OPSET + 1):
        means_the_same = all(_same_meaning(operator, low, version) for operator, low in plain)
        if not means_the_same or not all(_adaptable(node, low, version) for node, low in adapted):
            break
        reachable = version
    return reachable


def raise_to(model: ir.Model, version: int) -> None:
    """Raise the model and its functions to an opset up to its ceiling, in place."""
    current, names = model.opset_imports.get("", version), Names(model)
    for nodes, low in (
        (list(model.graph.all_nodes()), current),
        *((list(f.all_nodes()), f.opset_imports.get("", current)) for f in model.functions.values()),
    ):
        for node in nodes:
            for adapter in ADAPTERS.get(node.op_type, ()) if node.domain == "" else ():
                if low < adapter.since <= version:
                    adapter.adapt(node, names)
    for imports in _all_imports(model):
        if imports.get("", version) < version:
            imports[""] = version


def _adaptable(node: ir.Node, low: int, version: int) -> bool:
    """Whether a node has the same meaning in two opsets, by its schemas and adapters for each step between."""
    for adapter in ADAPTERS[node.op_type]:
        if low < adapter.since <= version:
            if not _same_meaning(node.op_type, low, adapter.since - 1) or not adapter.can(node):
                return False
            low = adapter.since
    return _same_meaning(node.op_type, low, version)


@functools.cache
def introduced(operator: str, dtype: ir.DataType | None = None) -> int:
    """Return the first opset of an operator, or of a dtype of it; 0 for a vendor operator, ``domain::Name``."""
    versions = sorted(_versions(operator))
    return next((version for version in versions if _takes(operator, version, dtype)), min(versions, default=0))


def runnable_up_to(operator: str) -> int:
    """Return the highest opset in which onnxruntime runs an operator."""
    return _BODY_ONLY_AT.get(operator, HIGHEST_OPSET)


def _all_imports(model: ir.Model) -> Iterator[MutableMapping[str, int]]:
    yield model.opset_imports
    for function in model.functions.values():
        yield function.opset_imports


def _takes(operator: str, version: int, dtype: ir.DataType | None) -> bool:
    """Whether a version of an operator allows a dtype for its results."""
    if dtype is None:
        return True
    schema = onnx.defs.get_schema(operator, version)
    return not schema.outputs or f"tensor({dtype.name.lower()})" in schema.outputs[0].types


@functools.cache
def _versions(operator: str) -> tuple[int, ...]:
    schemas: Iterable[onnx.defs.OpSchema] = onnx.defs.get_all_schemas_with_history()
    return tuple(s.since_version for s in schemas if s.name == operator and s.domain == "")


@functools.cache
def _same_meaning(operator: str, low: int, high: int) -> bool:
    try:
        old = onnx.defs.get_schema(operator, low, "")
        new = onnx.defs.get_schema(operator, high, "")
    except onnx.defs.SchemaError:
        return False
    if old.since_version == new.since_version:
        return True
    if new.deprecated or (operator in _NO_KERNEL_OF_22 and new.since_version >= 22):
        return False
    added = set(new.attributes) - set(old.attributes)
    return (
        all((operator, name) in _NEUTRAL_ADDITIONS for name in added)
        and all(_same_attribute(attribute, new) for attribute in old.attributes.values())
        and _same_slots(old.inputs, new.inputs)
        and _same_slots(old.outputs, new.outputs)
    )


def _same_attribute(old: onnx.defs.OpSchema.Attribute, schema: onnx.defs.OpSchema) -> bool:
    new = schema.attributes.get(old.name)
    return (
        new is not None
        and new.type == old.type
        and new.required <= old.required
        and new.default_value.SerializeToString() == old.default_value.SerializeToString()
    )


def _same_slots(
    old: Sequence[onnx.defs.OpSchema.FormalParameter], new: Sequence[onnx.defs.OpSchema.FormalParameter]
) -> bool:
    """Whether the inputs or outputs are the same, except for new optional ones at the end."""
    option = onnx.defs.OpSchema.FormalParameterOption
    return (
        len(old) <= len(new)
        and all(slot.option == option.Optional for slot in new[len(old) :])
        and all(
            (o.name, o.min_arity) == (n.name, n.min_arity)
            and (o.option == n.option or (o.option, n.option) == (option.Single, option.Optional))
            and o.types <= n.types
            for o, n in zip(old, new, strict=False)
        )
    )
