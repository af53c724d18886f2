"""Raising a graph's opset, only where that provably changes nothing.

Between two opsets most operators only gain element types. Comparing the two schemas tells: where
inputs, outputs and attributes agree and no element type was taken away, the node means the same
under both. Anything else needs an adapter, and the graph stays where it is.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, MutableMapping, Sequence

import onnx
import onnx_ir as ir

# onnxruntime 1.31 refuses a model of opset 27 or higher.
HIGHEST_OPSET = 26

# Operators of which onnxruntime 1.31 has a CPU kernel of an earlier version, and none of that of opset 22:
# the raised graph would not load. Found by loading every operator's tests of ONNX at opsets 14 to 24.
_NO_KERNEL_OF_22 = frozenset(
    {
        "Bernoulli",
        "GlobalLpPool",
        "MaxRoiPool",
        "Multinomial",
        "RandomNormal",
        "RandomNormalLike",
        "RandomUniform",
        "RandomUniformLike",
        "RoiAlign",
    }
)

# Operators that onnxruntime 1.31 runs by their function body, and takes that of no later opset.
_BODY_ONLY_AT = {"Swish": 24}

# Attributes that a later version added and whose default is the earlier version's behaviour. The
# first two concern float8 and the rounding to it, which no earlier version had.
_NEUTRAL_ADDITIONS = frozenset(
    {("Cast", "saturate"), ("Cast", "round_mode"), ("CastLike", "saturate"), ("CastLike", "round_mode")}
)


def normalise(model: ir.Model) -> None:
    """Write the default domain's import under its usual name; ``ai.onnx`` is another name of the same."""
    for imports in _all_imports(model):
        if "ai.onnx" in imports:
            imports.setdefault("", imports.pop("ai.onnx"))


def ceiling(model: ir.Model) -> int:
    """Return the highest opset that the model can be raised to without changing any node."""
    current = model.opset_imports.get("", HIGHEST_OPSET)
    # A function imports an opset of its own, and the checker wants it to agree with the model's.
    operators = _operators(model.graph, current)
    for function in model.functions.values():
        operators |= _operators(function, function.opset_imports.get("", current))
    reachable = current
    for version in range(current + 1, HIGHEST_OPSET + 1):
        if not all(_same_meaning(operator, low, version) for operator, low in operators):
            break
        reachable = version
    return reachable


def raise_to(model: ir.Model, version: int) -> None:
    """Raise the model, its functions included, to an opset that is not above its ceiling."""
    for imports in _all_imports(model):
        if imports.get("", version) < version:
            imports[""] = version


@functools.cache
def introduced(operator: str) -> int:
    """Return the opset that introduced an operator; 0 for a vendor's, ``domain::Name``."""
    return min(_versions(operator), default=0)


def runnable_up_to(operator: str) -> int:
    """Return the highest opset of a graph in which onnxruntime runs an operator."""
    return _BODY_ONLY_AT.get(operator, HIGHEST_OPSET)


def _all_imports(model: ir.Model) -> Iterator[MutableMapping[str, int]]:
    yield model.opset_imports
    for function in model.functions.values():
        yield function.opset_imports


def _operators(graph: ir.Graph | ir.Function, opset: int) -> set[tuple[str, int]]:
    return {(node.op_type, opset) for node in graph.all_nodes() if node.domain == ""}


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
        and new.required == old.required
        and new.default_value.SerializeToString() == old.default_value.SerializeToString()
    )


def _same_slots(
    old: Sequence[onnx.defs.OpSchema.FormalParameter], new: Sequence[onnx.defs.OpSchema.FormalParameter]
) -> bool:
    return len(old) == len(new) and all(
        (o.name, o.option, o.min_arity) == (n.name, n.option, n.min_arity) and o.types <= n.types
        for o, n in zip(old, new, strict=True)
    )
