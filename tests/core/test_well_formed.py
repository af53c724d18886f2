"""Files that parse and that nothing can run, and such as ONNX Runtime runs though ONNX forbids them."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import onnxruntime
import pytest
from onnx import helper, numpy_helper

from ffn_export.core import onnx_file
from ffn_export.errors import UsageError

Change = Callable[[onnx.GraphProto], None]


def saved(tmp_path: Path, change: Change) -> Path:
    """A small model, changed in the file."""
    model = onnx.parser.parse_model(
        """<ir_version: 10, opset_import: ["" : 20]>
        g (float[n,4] x) => (float[n,4] y) <float[4] w = {1, 2, 3, 4}> {
            [first] a = Add(x, w)
            [last] y = Relu(a)
        }"""
    )
    change(model.graph)
    path = tmp_path / "model.onnx"
    onnx.save(model, path)
    return path


def without_outputs(graph: onnx.GraphProto) -> None:
    del graph.output[:]


def of_another_output(graph: onnx.GraphProto) -> None:
    graph.output[0].name = "z"


def reading_nothing(graph: onnx.GraphProto) -> None:
    graph.node[0].input[1] = "bias"


def in_a_cycle(graph: onnx.GraphProto) -> None:
    graph.node[0].input[1] = "y"


def made_twice(graph: onnx.GraphProto) -> None:
    graph.node.append(helper.make_node("Neg", ["a"], ["y"]))


def a_text_short(graph: onnx.GraphProto) -> None:
    words = numpy_helper.from_array(np.array(["one", "two"], dtype=object), "words")
    del words.string_data[0]
    graph.initializer.append(words)


def a_constant_byte_short(graph: onnx.GraphProto) -> None:
    raw = numpy_helper.from_array(np.ones(4, np.float32), "w")
    raw.raw_data = raw.raw_data[:-1]
    graph.node.append(helper.make_node("Constant", [], ["spare"], value=raw))


def of_an_impossible_shape(graph: onnx.GraphProto) -> None:
    graph.initializer.append(onnx.TensorProto(name="none", data_type=1, dims=[2**63 - 1, 2**31, 0], raw_data=b""))


def a_byte_short(graph: onnx.GraphProto) -> None:
    raw = numpy_helper.from_array(np.ones(4, np.float32), "w")
    raw.raw_data = raw.raw_data[:-1]
    graph.initializer[0].CopyFrom(raw)


def a_number_short(graph: onnx.GraphProto) -> None:
    del graph.initializer[0].float_data[-1]


def a_body_that_reads_nothing(graph: onnx.GraphProto) -> None:
    body = onnx.parser.parse_graph("body () => (float[n,4] b) { [inner] b = Sqrt(nowhere) }")
    graph.node[1].CopyFrom(helper.make_node("If", ["c"], ["y"], then_branch=body, else_branch=body))
    graph.initializer.append(numpy_helper.from_array(np.array(True), "c"))


def without_a_data_type(graph: onnx.GraphProto) -> None:
    a_byte_short(graph)
    graph.initializer[-1].data_type = onnx.TensorProto.UNDEFINED


def test_a_name_that_is_no_text_is_refused(tmp_path: Path) -> None:
    path = saved(tmp_path, lambda graph: None)
    path.write_bytes(path.read_bytes().replace(b"Relu", b"R\x9dlu"))
    with pytest.raises(UsageError, match="of a node is no UTF-8"):
        onnx_file.load(path)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (without_outputs, "it has no outputs"),
        (of_another_output, "nothing makes its output 'z'"),
        (reading_nothing, "Add 'first' reads 'bias', which nothing makes"),
        (in_a_cycle, "its nodes form a cycle"),
        (made_twice, "ValueError: Output 'y' is redeclared in the current graph scope"),
        (a_byte_short, "initializer 'w' holds 15 bytes, and float32[4] takes 16"),
        (a_text_short, "initializer 'words' holds another count of numbers than string[2] takes"),
        (a_constant_byte_short, "'value' of a node Constant holds 15 bytes, and float32[4] takes 16"),
        (
            of_an_impossible_shape,
            "initializer 'none' has the shape [9223372036854775807, 2147483648, 0], which no array",
        ),
        (without_a_data_type, "initializer 'w' has no data type"),
        (a_number_short, "initializer 'w' holds another count of numbers than float32[4] takes"),
        (a_body_that_reads_nothing, "Sqrt 'inner' reads 'nowhere' in body, which nothing makes"),
    ],
)
def test_what_nothing_can_run_is_refused_with_the_reason(change: Change, why: str, tmp_path: Path) -> None:
    path = saved(tmp_path, change)
    with pytest.raises(UsageError) as refused:
        onnx_file.load(path)
    assert str(refused.value).startswith(f"{path} is no valid ONNX graph: {why}")


CASTING = """<ir_version: 10, opset_import: ["" : 20, "com.microsoft" : 1, "own" : 1]>
    g (float[n,4] x, bool c) => (float[n,4] y) <float[4,4] w> {
        a = com.microsoft.FusedMatMul <transB: int = 1> (x, w)
        b = own.Half (a)
        y = If (c) <then_branch = yes () => (float[n,4] t) { t = Identity (b) },
                    else_branch = no () => (float[n,4] e) { e = Softmax <axis = -1> (b) }>
    }
    <domain: "own", opset_import: ["" : 20]> Half (v) => (r) { h = Cast <to = 10> (v)  r = Cast <to = 1> (h) }"""


@pytest.mark.parametrize(
    ("right", "wrong", "why"),
    [
        ("Cast <to = 10>", 'Cast <to = "ten">', "a node Cast has 'to' as STRING, where its operator takes INT"),
        ("Cast <to = 10>", "Cast <to = 4711>", "a node Cast has 'to' = 4711, which is no data type"),
        ("Cast <to = 10>", "Cast", "a node Cast has no 'to', which its operator needs"),
        ("Softmax <axis = -1> (b)", "Softmax <axis = 0.5> (b)", "a node Softmax has 'axis' as FLOAT"),
        ("Identity (b)", "Identity (b, b)", "a node Identity has 2 inputs, where its operator takes 1"),
        ("Identity (b)", "Clip ()", "a node Clip has 0 inputs, where its operator takes 1"),
        ("t = Identity (b)", "t, u = Identity (b)", "a node Identity has 2 outputs, where its operator takes 1"),
        ('["" : 20, "com', '["com', "If is of the standard domain, of which the model imports no opset"),
        ('["" : 20]> Half', "[]> Half", "a node Cast is of the standard domain, of which the model imports no opset"),
        ("<transB: int = 1>", '<transB: string = "1">', "a node FusedMatMul has 'transB' as STRING"),
    ],
)
def test_a_node_that_contradicts_its_operator_is_refused(right: str, wrong: str, why: str, tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    onnx.save(with_weights(onnx.parser.parse_model(CASTING)), path)
    onnx_file.load(path)
    onnx.save(with_weights(onnx.parser.parse_model(CASTING.replace(right, wrong))), path)
    with pytest.raises(UsageError, match=re.escape(why)):
        onnx_file.load(path)


def with_weights(model: onnx.ModelProto) -> onnx.ModelProto:
    del model.graph.initializer[:]
    model.graph.initializer.append(numpy_helper.from_array(np.eye(4, dtype=np.float32), "w"))
    return model


def test_nodes_in_another_order_than_that_of_the_data_are_sorted(tmp_path: Path) -> None:
    def turned(graph: onnx.GraphProto) -> None:
        nodes = list(graph.node)
        del graph.node[:]
        graph.node.extend(reversed(nodes))

    path = saved(tmp_path, turned)
    onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])  # takes them as they are
    assert [node.op_type for node in onnx_file.load(path).graph] == ["Add", "Relu"]
