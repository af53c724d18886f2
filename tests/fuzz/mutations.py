"""Changes to a model that keep it a protobuf of the right kind, and changes to its bytes that need not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import onnx
from onnx import TensorProto, helper

NAMES = (
    "",
    "x",
    "y",
    "::error::pwned",
    "a\n::set-env name=PATH::pwned",
    "\x1b[2J\x07",
    "\u202egnp.x",
    "\x9b31m",
    "'",
    '"',
    "../../secret",
    "a/b",
    "%s%n{}",
    "\ud7ff\uffff",
    "n" * 5000,
    "[red]x[/red]",
    "<script>alert(1)</script>",
    "batch",
    "-",
    "\r::stop",
)
LOCATIONS = (
    "../secret.bin",
    "/dev/zero",
    "fifo",
    "link",
    "/etc/passwd",
    ".",
    "",
    "weights.bin\x00x",
    "weights.bin",
    "nowhere",
    "::error::x",
    "a/../../secret.bin",
    "loop",
)
NUMBERS = (0, 1, -1, 2, 7, 8, 2**31 - 1, 2**31, 2**62, -(2**63), 2**63 - 1, 10**6, 10**12)
OPERATORS = [
    "MatMul",
    "Gemm",
    "Add",
    "Mul",
    "Div",
    "Erf",
    "Gelu",
    "LayerNormalization",
    "RMSNormalization",
    "Softmax",
    "Cast",
    "Reshape",
    "Transpose",
    "Concat",
    "Split",
    "Slice",
    "Gather",
    "Expand",
    "Range",
    "Tile",
    "Pad",
    "ConstantOfShape",
    "If",
    "Loop",
    "Scan",
    "Constant",
    "Einsum",
    "OneHot",
    "Resize",
    "Conv",
    "LSTM",
    "TopK",
    "SequenceAt",
    "NoSuchOp",
    "StringNormalizer",
    "Dropout",
    "RandomNormal",
    "CastLike",
    "Shape",
    "Size",
    "NonZero",
    "ReduceMean",
    "Identity",
    "QuantizeLinear",
    "DequantizeLinear",
    "Squeeze",
    "Unsqueeze",
    "Flatten",
    "Pow",
    "Sqrt",
    "SplitToSequence",
    "::x",
]
DOMAINS = ("", "ai.onnx", "com.microsoft", "own", "::error", "ai.ffn_export", "ai.onnx.ml", "\n")

Mutation = Callable[[onnx.ModelProto, Random], None]


def mutated(model: onnx.ModelProto, random: Random) -> bytes:
    """Return a file in which a few things are changed."""
    for _ in range(random.choice((1, 1, 2, 3, 6))):
        random.choice(_MUTATIONS)(model, random)
    data = model.SerializeToString()
    return _in_bytes(data, random) if random.random() < 0.2 else data


def _in_bytes(data: bytes, random: Random) -> bytes:
    changed = bytearray(data)
    for _ in range(random.choice((1, 2, 8))):
        place = random.randrange(len(changed) + 1)
        match random.randrange(5):
            case 0:
                del changed[place:]
            case 1:
                changed[place:place] = b"\xff" * random.choice((1, 5, 9, 10))
            case 2:
                changed[place : place + 1] = bytes([random.randrange(256)])
            case 3:
                changed[place:place] = changed[random.randrange(len(changed) + 1) :][:200]
            case _:
                del changed[place : place + random.randrange(40)]
    return bytes(changed)


def _graphs(graph: onnx.GraphProto) -> Iterator[onnx.GraphProto]:
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from _graphs(attribute.g)


def _some_graph(model: onnx.ModelProto, random: Random) -> Any:
    return random.choice([*_graphs(model.graph), *model.functions])


def _some_node(model: onnx.ModelProto, random: Random) -> Any:
    nodes = _some_graph(model, random).node
    return random.choice(nodes) if nodes else helper.make_node("Relu", ["x"], ["y"])


def _some_value(model: onnx.ModelProto, random: Random) -> onnx.ValueInfoProto:
    graph = random.choice([*_graphs(model.graph)])
    values = [*graph.input, *graph.output, *graph.value_info]
    return random.choice(values) if values else onnx.ValueInfoProto()


def _some_tensor(model: onnx.ModelProto, random: Random) -> TensorProto:
    held: list[TensorProto] = [tensor for graph in _graphs(model.graph) for tensor in graph.initializer]
    if not held:
        held.append(model.graph.initializer.add(name="added", data_type=TensorProto.FLOAT, dims=[1]))
    return random.choice(held)


def _rename_value(model: onnx.ModelProto, random: Random) -> None:
    """Everywhere in a graph, so that it stays connected."""
    graph = _some_graph(model, random)
    names = [name for node in graph.node for name in (*node.input, *node.output) if name]
    if names:
        old, new = random.choice(names), random.choice(NAMES)
        for node in graph.node:
            node.input[:] = [new if name == old else name for name in node.input]
            node.output[:] = [new if name == old else name for name in node.output]
        for value in () if isinstance(graph, onnx.FunctionProto) else (*graph.input, *graph.output, *graph.initializer):
            value.name = new if value.name == old else value.name


def _rename_node(model: onnx.ModelProto, random: Random) -> None:
    _some_node(model, random).name = random.choice(NAMES)


def _rename_graph(model: onnx.ModelProto, random: Random) -> None:
    model.graph.name = random.choice(NAMES)
    model.producer_name = random.choice(NAMES)
    model.doc_string = random.choice(NAMES)
    model.metadata_props.add(key=random.choice(NAMES), value=random.choice(NAMES))


def _operator(model: onnx.ModelProto, random: Random) -> None:
    node = _some_node(model, random)
    node.op_type = random.choice(OPERATORS)
    if random.random() < 0.3:
        node.domain = random.choice(DOMAINS)


def _attribute(model: onnx.ModelProto, random: Random) -> None:
    node = _some_node(model, random)
    values: tuple[Any, ...] = (
        random.choice(NUMBERS),
        [random.choice(NUMBERS) for _ in range(3)],
        float("nan"),
        1e308,
        "x",
        b"\xff\x00",
        [1.5],
        model.graph.initializer[0] if model.graph.initializer else 1,
        model.graph if random.random() < 0.2 else 0,
    )
    known = [attribute.name for attribute in node.attribute]
    usual = ("axis", "axes", "to", "perm", "value", "epsilon", "equation", "body", "then_branch", "num_outputs")
    name = random.choice([*known, *usual, random.choice(NAMES)])
    for place in reversed(range(len(node.attribute))):
        if node.attribute[place].name == name:
            del node.attribute[place]
    node.attribute.append(helper.make_attribute(name, random.choice(values)))


def _rewire(model: onnx.ModelProto, random: Random) -> None:
    """To any value: also to one that comes later, which makes a cycle, and to one of another graph."""
    node = _some_node(model, random)
    names = [name for other in _some_graph(model, random).node for name in (*other.input, *other.output)]
    if node.input and names:
        node.input[random.randrange(len(node.input))] = random.choice(names)


def _arity(model: onnx.ModelProto, random: Random) -> None:
    node = _some_node(model, random)
    match random.randrange(4):
        case 0:
            node.input.extend(["x", ""])
        case 1:
            node.output.append(random.choice(NAMES))
        case 2 if node.input:
            del node.input[-1]
        case _ if node.output:
            del node.output[-1]


def _nodes(model: onnx.ModelProto, random: Random) -> None:
    graph = _some_graph(model, random)
    if not graph.node:
        return
    node = random.choice(graph.node)
    match random.randrange(3):
        case 0:
            graph.node.remove(node)
        case 1:
            graph.node.append(node)  # its outputs are made twice
        case _:
            kept = list(graph.node)
            random.shuffle(kept)
            del graph.node[:]
            graph.node.extend(kept)


def _tensor(model: onnx.ModelProto, random: Random) -> None:
    tensor = _some_tensor(model, random)
    match random.randrange(5):
        case 0:
            tensor.dims[:] = [random.choice(NUMBERS) for _ in range(random.randrange(4))]
        case 1:
            tensor.data_type = random.choice((*range(26), 1000, -1))
        case 2:
            tensor.raw_data = tensor.raw_data[: random.randrange(len(tensor.raw_data) + 1)]
        case 3:
            tensor.name = random.choice(NAMES)
        case _:
            tensor.string_data.append(random.choice(NAMES).encode())


def _external(model: onnx.ModelProto, random: Random) -> None:
    tensor = _some_tensor(model, random)
    tensor.data_location = TensorProto.EXTERNAL
    if random.random() < 0.7:
        tensor.raw_data = b""
    del tensor.external_data[:]
    tensor.external_data.add(key="location", value=random.choice(LOCATIONS))
    for key in ("offset", "length"):
        if random.random() < 0.5:
            tensor.external_data.add(key=key, value=str(random.choice((*NUMBERS, "x", "1e9"))))


def _interface(model: onnx.ModelProto, random: Random) -> None:
    value = _some_value(model, random)
    match random.randrange(4):
        case 0:
            value.type.tensor_type.elem_type = random.randrange(24)
        case 1:
            dim = value.type.tensor_type.shape.dim.add()
            dim.dim_value = random.choice(NUMBERS)
        case 2:
            dim = value.type.tensor_type.shape.dim.add()
            dim.dim_param = random.choice((*NAMES, "batch+1", "9**9**9**9", "batch//0", "2*seq", "(" * 200))
        case _:
            value.name = random.choice(NAMES)


def _imports(model: onnx.ModelProto, random: Random) -> None:
    match random.randrange(4):
        case 0:
            model.opset_import[0].version = random.choice((0, -1, 1, 6, 12, 17, 25, 2**31, 2**62))
        case 1:
            model.ir_version = random.choice((0, 1, 3, 8, 10, 99, 2**40))
        case 2:
            model.opset_import.append(helper.make_opsetid(random.choice(DOMAINS), random.choice((0, 1, 18))))
        case _:
            del model.opset_import[0]


def _recursion(model: onnx.ModelProto, random: Random) -> None:
    """A function that calls itself, or is called under a name of the standard."""
    if model.functions:
        target = random.choice(model.functions)
        target.node.append(helper.make_node(random.choice(model.functions).name, ["a"], ["again"], domain="own"))
    else:
        inner = [helper.make_node("f", ["a"], ["b"], domain="own")]
        model.functions.append(helper.make_function("own", "f", ["a"], ["b"], inner, model.opset_import))


def _outputs(model: onnx.ModelProto, random: Random) -> None:
    match random.randrange(3):
        case 0:
            del model.graph.output[:]
        case 1:
            model.graph.output.append(model.graph.output[0] if model.graph.output else onnx.ValueInfoProto())
        case _:
            model.graph.input.append(random.choice((*model.graph.output, onnx.ValueInfoProto(name="more"))))


_MUTATIONS: tuple[Mutation, ...] = (
    _rename_value,
    _rename_node,
    _rename_graph,
    _operator,
    _operator,
    _attribute,
    _attribute,
    _rewire,
    _arity,
    _nodes,
    _tensor,
    _tensor,
    _external,
    _interface,
    _imports,
    _recursion,
    _outputs,
)
