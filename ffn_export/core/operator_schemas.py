"""Check nodes against the definitions of their operators: attributes of the right type, all that must be there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache

import onnx
import onnx_ir as ir

_STANDARD = ("", "ai.onnx")
# Attributes that name a data type by its number.
_DATA_TYPES = ("to", "dtype", "output_dtype", "output_datatype", "stash_type", "softmax_precision")
# The onnx package has no definitions of ONNX Runtime's own operators; these attributes have one type in all of them.
_VENDOR = "com.microsoft"
_TYPES_OF_VENDOR: Mapping[str, ir.AttributeType] = {
    **dict.fromkeys(
        ("K", "N", "accuracy_level", "axis", "bits", "block_size", "num_heads", "transA", "transB"),
        ir.AttributeType.INT,
    ),
    **dict.fromkeys(("alpha", "beta", "epsilon"), ir.AttributeType.FLOAT),
    "activation": ir.AttributeType.STRING,
}


def faults(model: ir.Model) -> Iterator[str]:
    """Yield the nodes that contradict the definition of their operator, in words, as ONNX Runtime would refuse them.

    Operators that are not defined in the model's opset are left to the runtime, as functions of the model are.
    """
    for graph, versions in (
        (model.graph, model.opset_imports),
        *((function.graph, function.opset_imports) for function in model.functions.values()),
    ):
        for node in graph.all_nodes():
            if node.op_identifier() not in model.functions:
                for fault in _of_node(node, versions):
                    yield f"{described(node)} {fault}"


def described(node: ir.Node) -> str:
    """Return the operator and name of a node, as messages say it."""
    return f"{node.op_type} {node.name!r}" if node.name else f"a node {node.op_type}"


def _of_node(node: ir.Node, versions: Mapping[str, int]) -> Iterator[str]:
    domain = "" if node.domain in _STANDARD else node.domain
    version = versions.get(node.domain, versions.get(domain, 0))
    if not domain and version < 1:
        yield f"is of the standard domain, of which the model imports {f'opset {version}' if version else 'no opset'}"
        return
    schema = _schema(node.op_type, domain, node.version or version)
    types = _TYPES_OF_VENDOR if node.domain == _VENDOR else {} if schema is None else _types(schema)
    for name, attribute in node.attributes.items():
        wanted = types.get(name)
        if wanted is not None and attribute.type != wanted:
            yield f"has {name!r} as {attribute.type.name}, where its operator takes {wanted.name}"
        elif wanted == ir.AttributeType.INT and name in _DATA_TYPES and not _is_data_type(attribute):
            yield f"has {name!r} = {attribute.value}, which is no data type"
    if schema is None:
        return
    for name, stated in schema.attributes.items():
        if stated.required and name not in node.attributes:
            yield f"has no {name!r}, which its operator needs"
    for what, count, least, most in (
        ("inputs", len(node.inputs), schema.min_input, schema.max_input),
        ("outputs", len(node.outputs), schema.min_output, schema.max_output),
    ):
        if not least <= count <= most:
            yield f"has {count} {what}, where its operator takes {least if count < least else most}"


@lru_cache(maxsize=4096)
def _schema(op_type: str, domain: str, version: int) -> onnx.defs.OpSchema | None:
    try:
        return onnx.defs.get_schema(op_type, version, domain)
    except (onnx.defs.SchemaError, TypeError):  # TypeError: a version that no integer of the library holds
        return None


@lru_cache(maxsize=4096)
def _types(schema: onnx.defs.OpSchema) -> Mapping[str, ir.AttributeType]:
    signature = ir.schemas.OpSignature.from_op_schema(schema)
    return {each.name: each.type for each in signature.params if isinstance(each, ir.schemas.AttributeParameter)}


def _is_data_type(attribute: ir.Attr) -> bool:
    return attribute.is_ref() or attribute.value in {each.value for each in ir.DataType}
