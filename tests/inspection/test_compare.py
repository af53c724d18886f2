"""Two models differ where they compute differently, and not where they are merely written differently."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from ffn_export.core import onnx_file
from ffn_export.inspection.compare import compare
from ffn_export.inspection.difference import Change, Difference
from tests.fusion.graphs import model
from tests.parity.faults.activations import negated_activation
from tests.parity.faults.norms import epsilon
from tests.parity.faults.sizes import static_batch
from tests.parity.faults.weights import nan_weight, scaled_weight

Edit = Callable[[ir.Model], None]
Compared = Callable[..., Difference]


@pytest.fixture
def compared(fused_file: Callable[..., Path], tmp_path: Path) -> Compared:
    """Compare a preset with an edited copy of itself."""

    def run(edit: Edit, spec: str = "d2l-ffn-addnorm") -> Difference:
        path = fused_file(spec)
        model = onnx_file.load(path)
        edit(model)
        onnx_file.save(model, tmp_path / "b.onnx")
        return compare(path, tmp_path / "b.onnx")

    return run


def rename_everything(model: ir.Model) -> None:
    for number, value in enumerate(list(model.graph.initializers.values())):
        value.name = f"w{number}"
    for number, node in enumerate(model.graph):
        node.name = f"n{number}"


def transpose_weights(model: ir.Model) -> None:
    for value in list(model.graph.initializers.values()):
        if value.const_value is None or len(value.const_value.shape) != 2:
            continue
        users = list(value.uses())
        turned = np.ascontiguousarray(value.const_value.numpy().T)
        value.const_value = ir.Tensor(turned, name=value.name)
        value.shape = ir.Shape(turned.shape)
        for user, index in users:
            node = ir.node("Transpose", [value], {"perm": [1, 0]})
            model.graph.insert_before(user, node)
            user.replace_input_with(index, node.outputs[0])


@pytest.mark.slow
def test_the_same_model_under_other_names_is_the_same(compared: Compared) -> None:
    found = compared(rename_everything)
    assert not found.differs
    assert found.count("equal") == 6
    assert all(pair.renamed for pair in found.weights)


def test_equal_weights_may_be_paired_in_any_order(compared: Compared) -> None:
    def twins(model: ir.Model) -> None:
        rename_everything(model)
        for name, value in zip(("b", "a"), list(model.graph.initializers.values())[:2], strict=True):
            value.name = name

    assert not compared(twins).differs


def test_a_transposed_weight_is_equal_and_its_node_is_a_difference(compared: Compared) -> None:
    found = compared(transpose_weights)
    assert found.count("equal") == 6
    assert sum(pair.transposed for pair in found.weights) == 2
    assert found.differs
    assert not found.same_wiring
    assert found.b.operators["Transpose"] == 2


def test_a_changed_weight_is_named_with_its_size(compared: Compared) -> None:
    found = compared(scaled_weight(1.5))
    (changed,) = [pair for pair in found.weights if pair.status == "changed"]
    assert changed.max_relative == pytest.approx(0.5)
    assert found.same_wiring
    assert found.differs
    nan = compared(nan_weight)
    assert [pair.max_relative for pair in nan.weights if pair.status == "changed"] == [float("inf")]


@pytest.mark.parametrize("fault", [negated_activation, epsilon(1e-3), static_batch])
def test_other_faults_differ_without_any_weight(compared: Compared, fault: Edit) -> None:
    found = compared(fault)
    assert found.count("equal") == len(found.weights)
    assert found.differs


def test_swapped_inputs_are_another_wiring(tmp_path: Path) -> None:
    for name, inputs in (("a", ["x", "y"]), ("b", ["y", "x"])):
        graph = onnx.helper.make_graph(
            [onnx.helper.make_node("Sub", inputs, ["z"])],
            "g",
            [onnx.helper.make_tensor_value_info(v, onnx.TensorProto.FLOAT, [2]) for v in ("x", "y")],
            [onnx.helper.make_tensor_value_info("z", onnx.TensorProto.FLOAT, [2])],
        )
        onnx.save(onnx.helper.make_model(graph), tmp_path / f"{name}.onnx")
    assert not compare(tmp_path / "a.onnx", tmp_path / "b.onnx").same_wiring


def test_weights_of_another_precision_are_changed_by_their_rounding(compared: Compared) -> None:
    def halve(model: ir.Model) -> None:
        for value in model.graph.initializers.values():
            assert value.const_value is not None
            value.const_value = ir.Tensor(value.const_value.numpy().astype(np.float16), name=value.name)

    found = compared(halve)
    relative = [pair.max_relative for pair in found.weights if pair.status == "changed"]
    assert len(relative) == 6
    assert all(r is not None and r < 1e-3 for r in relative)


@pytest.mark.slow
def test_missing_data_is_not_compared_and_not_the_same(fused_file: Callable[..., Path], tmp_path: Path) -> None:
    path = fused_file("bert-ffn")
    onnx_file.save(onnx_file.load(path), tmp_path / "external.onnx", external_above=0)
    assert not compare(path, tmp_path / "external.onnx").differs
    (tmp_path / "external.onnx.data").unlink()
    found = compare(path, tmp_path / "external.onnx")
    assert found.count("not compared") == 6
    assert found.differs
    assert found.b.note is not None


def test_it_reads_back(compared: Compared) -> None:
    found = compared(scaled_weight(1.5))
    assert Difference.from_dict(json.loads(json.dumps(found.to_dict()))).to_dict() == found.to_dict()


def test_a_value_that_only_a_branch_reads_counts(tmp_path: Path) -> None:
    then, other = "t () => (float[2] p) { p = Neg(h) }", "e () => (float[2] q) { q = Abs(x) }"
    branches = f"y = If(c) <then_branch = {then}, else_branch = {other}>"
    for name, operator in (("a", "Relu"), ("b", "Tanh"), ("again", "Relu")):
        onnx_file.save(
            model(f"h = {operator}(x) {branches}", inputs="float[2] x, bool c", outputs="float[2] y"),
            tmp_path / f"{name}.onnx",
        )
    assert compare(tmp_path / "a.onnx", tmp_path / "b.onnx").differs
    assert not compare(tmp_path / "a.onnx", tmp_path / "again.onnx").differs


def test_the_body_of_a_function_counts(tmp_path: Path) -> None:
    head = '<domain: "my", opset_import: ["" : 24]> F (v) => (w) { '
    for name, body in (
        ("a", "r = Relu(v) k = Constant<value_float = 0.5>() w = Mul(r, k)"),
        ("b", "r = Relu(v) k = Constant<value_float = 0.25>() w = Mul(r, k)"),
        ("renamed", "s = Relu(v) n = Constant<value_float = 0.5>() w = Mul(s, n)"),
    ):
        onnx_file.save(model("y = my.F(x)", domains=["my"], functions=f"{head}{body} }}"), tmp_path / f"{name}.onnx")
    assert compare(tmp_path / "a.onnx", tmp_path / "b.onnx").differs
    assert not compare(tmp_path / "a.onnx", tmp_path / "renamed.onnx").differs


def test_what_a_function_takes_where_its_call_says_nothing_counts(tmp_path: Path) -> None:
    for number in (0.5, 0.25):
        head = f'<domain: "my", opset_import: ["" : 24]> F <k : float = {number}> (v) => (w) '
        body = "{ c = Constant<value_float : float = @k>() w = Mul(v, c) }"
        onnx_file.save(model("y = my.F(x)", domains=["my"], functions=head + body), tmp_path / f"{number}.onnx")
    assert compare(tmp_path / "0.5.onnx", tmp_path / "0.25.onnx").differs


def changes(tmp_path: Path, a: str, b: str, **parts: Any) -> list[tuple[str, str | None, str | None, list[str]]]:
    """Return status, names and changes of the nodes of two texts."""
    for name, text in (("a", a), ("b", b)):
        onnx_file.save(model(text, **parts), tmp_path / f"{name}.onnx")
    found = compare(tmp_path / "a.onnx", tmp_path / "b.onnx").nodes
    return [(n.status, n.a, n.b, [f"{c.what} {c.a} > {c.b}" for c in n.changes]) for n in found]


def test_an_attribute_that_changed_is_named_and_the_nodes_behind_it_are_not(compared: Compared) -> None:
    def attribute(model: ir.Model) -> None:
        (node,) = [node for node in model.graph if node.op_type == "LayerNormalization"]
        node.attributes["axis"] = ir.AttrInt64("axis", 1)
        del node.attributes["epsilon"]

    (found,) = compared(attribute).nodes
    assert found.operator == "LayerNormalization"
    assert found.changes[0] == Change("axis", "-1", "1")
    assert found.changes[1:] in ((), (Change("epsilon", "1e-05", "1e-05 (default)"),))


@pytest.mark.parametrize("names", ["", "other_"])
def test_an_attribute_is_found_under_any_name(tmp_path: Path, names: str) -> None:
    a = "h = Gelu(x) k = Relu(h) y = Add(k, x)"
    b = f'{names}h = Gelu<approximate = "tanh">(x) {names}k = Relu({names}h) y = Add({names}k, x)'
    ((status, _, _, what),) = changes(tmp_path, a, b)
    assert (status, what) == ("changed", ["approximate none (default) > tanh"])


def test_a_replaced_operator_and_an_input_are_named(tmp_path: Path) -> None:
    a, b = "h = Relu(x) g = Neg(x) y = Sub(h, g)", "h = Tanh(x) g = Neg(x) y = Sub(h, h)"
    found = [what for _, _, _, what in changes(tmp_path, a, b)]
    assert found == [["operator Relu > Tanh"], ["input 1 g > h"], []]


def test_an_added_node_is_named_and_its_reader_s_input(tmp_path: Path) -> None:
    a = "h = Relu(x) y = Tanh(h)"
    found = changes(tmp_path, a, "h = Relu(x) n = Neg(h) y = Tanh(n)")
    assert [(status, what) for status, _, _, what in found] == [("changed", ["input 0 h > n"]), ("only in B", [])]
    assert changes(tmp_path, a, a) == []
