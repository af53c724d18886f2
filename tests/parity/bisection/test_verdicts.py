"""What is said where no single node is wrong, and where the numbers are not plain floats."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest
import torch

from ffn_export.core import onnx_file
from ffn_export.exporter.export import export_source
from ffn_export.exporter.source import from_module
from ffn_export.fusion.pipeline import fuse
from ffn_export.parity.reference.references import OnnxReference, TorchReference
from ffn_export.runtimes.session_options import SessionSettings
from tests.parity.add_norms import AddNorm
from tests.parity.bisection import planted
from tests.parity.bisection.conftest import Search, Subject
from tests.parity.faults.sizes import static_batch


def node(model: ir.Model, name: str) -> ir.Node:
    return next(each for each in model.graph if each.name == name)


@pytest.mark.slow
@pytest.mark.parametrize("target", [None, "portable", "ort", "ort-cpu"])
def test_nothing_differs(target: str | None, block: Subject, search: Search) -> None:
    model = block.model if target is None else fuse(block.model, target)[0]
    found, part = search(model, block, reduce=True)
    assert found.verdict == "nothing"
    assert found.compared > 30
    assert part is None


@pytest.mark.slow
def test_nothing_differs_where_names_say_nothing(block: Subject, search: Search) -> None:
    model = block.model.clone()
    planted.rename(model)
    found, _ = search(model, block)
    assert (found.verdict, found.alignment, found.unpaired) == ("nothing", "numbers", 0)


@pytest.mark.slow
def test_names_that_stand_for_other_values_are_not_believed(block: Subject, search: Search) -> None:
    model = block.model.clone()
    values = [v for each in model.graph for v in each.outputs if not v.is_graph_output()]
    names = [str(value.name) for value in values]
    for number, value in enumerate(values):
        value.name = f"turned_{number}"
    for value, name in zip(values, names[1:] + names[:1], strict=True):
        value.name = name
    found, _ = search(model, block)
    assert (found.verdict, found.alignment) == ("nothing", "numbers")


@pytest.mark.slow
def test_in_small_chunks_the_result_is_the_same(block: Subject, search: Search) -> None:
    model = block.model.clone()
    planted.wrong_weight(model, node(model, "node_MatMul_60"))
    whole, _ = search(model, block)
    chunked, _ = search(model, block, most_bytes=2**15)
    assert whole.part is not None
    assert chunked == whole
    assert whole.part.node.name == "node_MatMul_60"
    assert whole.part.node.scope == "attention.out"


def test_own_error_is_told_from_what_is_inherited(add_norm: Subject, search: Search) -> None:
    model = add_norm.model.clone()
    for name in ("node_linear", "node_layer_norm"):
        planted.wrong_weight(model, node(model, name))
    found, _ = search(model, add_norm)
    assert found.part is not None
    assert found.part.node.name == "node_linear"
    assert found.part.given[0].inherited is not None
    assert found.part.given[0].inherited.ulps < 8
    (norm,) = found.further
    assert norm.node.name == "node_layer_norm"
    assert norm.given[0].inherited is not None
    assert norm.given[0].inherited.ulps > 1000
    assert norm.whole is not None
    assert norm.own.factor > 1


@pytest.mark.slow
def test_a_weight_that_no_input_reaches_is_found_by_its_numbers(block: Subject, search: Search) -> None:
    model = block.model.clone()
    used = block.cases[0].feeds(block.reference.inputs)["ids"]
    table = model.graph.initializers["embed.weight"]
    assert table.const_value is not None
    array = table.const_value.numpy().copy()
    array[np.setdiff1d(np.arange(len(array)), used)[0]] *= 1.001
    table.const_value = ir.Tensor(array, name=table.name)
    found, _ = search(model, block)
    assert found.verdict == "initializer"
    assert found.part is not None
    assert found.part.node.name == "node_embedding"
    assert "'embed.weight'" in found.reason


@pytest.mark.slow
def test_the_first_value_that_is_not_finite_is_named(block: Subject, search: Search) -> None:
    model = block.model.clone()
    weight = model.graph.initializers["norm_2.bias"]
    assert weight.const_value is not None
    array = weight.const_value.numpy().copy()
    array[5] = np.nan
    weight.const_value = ir.Tensor(array, name=weight.name)
    found, _ = search(model, block)
    assert found.part is not None
    assert found.part.node.name == "node_layer_norm_1"
    assert found.part.own.unexpected > 0
    assert found.part.own.index[-1] == 5


@pytest.mark.slow
def test_integers_say_where_they_first_differ(block: Subject, search: Search) -> None:
    model = block.model.clone()
    planted.other_operator(model, node(model, "node_argmax"))
    found, _ = search(model, block)
    assert found.part is not None
    assert found.part.value == "output_1"
    assert found.part.own.index == (0, 0)
    assert found.part.contrast == ("it is ArgMin, the reference has ArgMax",)


def test_a_static_size_inside_is_named(block: Subject, search: Search) -> None:
    model = block.model.clone()
    concat = node(model, "node_Concat_58")
    fixed = ir.val("fixed", const_value=ir.Tensor(np.asarray([7], np.int64), name="fixed"))
    model.graph.register_initializer(fixed)
    concat.replace_input_with(1, fixed)
    found, _ = search(model, block)
    assert found.part is not None
    assert found.part.node.name == "node_Concat_58"


def test_a_fixed_axis_is_no_nodes_fault(add_norm: Subject, search: Search) -> None:
    model = add_norm.model.clone()
    static_batch(model)
    found, _ = search(model, add_norm, failures=("axis 0 of input 'x' is fixed to 4",))
    assert found.part is None
    assert found.verdict == "accumulated"
    assert "the runtime failed" in found.reason


@pytest.mark.slow
def test_a_fault_of_the_optimiser_is_no_nodes_fault(search: Search) -> None:
    # The kernel that onnxruntime puts in takes sums one element after the other: it shows on wide rows far from zero.
    source = from_module(
        AddNorm(lambda: torch.nn.LayerNorm(4096)).eval(), dict.fromkeys(("x", "sublayer"), "float32[b,9,4096]")
    )
    reference = TorchReference(source, 1)
    subject = Subject(source, export_source(source), reference, ())
    found, part = search(
        subject.model, subject, cases=[subject.case("offset")], settings=SessionSettings("all", {}), reduce=True
    )
    assert found.verdict == "session"
    assert "graph_optimization_level=extended" in found.reason
    assert part is not None
    assert [each.op_type for each in part.model.graph] == ["Add", "LayerNormalization"]
    kept, _ = search(subject.model, subject, cases=[subject.case("offset")])
    assert kept.verdict == "nothing"


@pytest.mark.parametrize("target", [None, "ort"])
def test_against_another_graph(target: str | None, add_norm: Subject, search: Search, tmp_path: Path) -> None:
    other = add_norm.model if target is None else fuse(add_norm.model, target)[0]
    onnx_file.save(other, tmp_path / "other.onnx")
    reference = OnnxReference(tmp_path / "other.onnx", 1)
    suspect = add_norm.model.clone()
    against = {"reference": reference, "model": onnx_file.load(tmp_path / "other.onnx")}
    assert search(suspect, add_norm, **against)[0].verdict == "nothing"
    planted.wrong_weight(suspect, node(suspect, "node_MatMul_3"))
    found, _ = search(suspect, add_norm, **against)
    assert found.part is not None
    assert found.part.node.name == "node_MatMul_3"


def test_an_operator_without_a_formula_is_its_own_truth(add_norm: Subject, search: Search, tmp_path: Path) -> None:
    model = add_norm.model.clone()
    model.opset_imports["com.microsoft"] = 1
    product = node(model, "node_MatMul_1")
    same = ir.Node("com.microsoft", "TransposeMatMul", list(product.inputs), name="product", num_outputs=1)
    old, new = product.outputs[0], same.outputs[0]
    new.name, new.type = old.name, old.type
    ir.convenience.replace_nodes_and_values(model.graph, product, [product], [same], [old], [new])
    path = tmp_path / "other.onnx"
    onnx_file.save(model, path)
    suspect = model.clone()
    planted.other_attribute(suspect, node(suspect, "node_gelu"))
    found, _ = search(suspect, add_norm, reference=OnnxReference(path, 1), model=onnx_file.load(path))
    assert found.part is not None
    assert found.part.node.name == "node_gelu"


def test_inputs_that_another_exporter_calls_otherwise_are_fed_by_their_own_names(
    add_norm: Subject, search: Search
) -> None:
    model = add_norm.model.clone()
    model.graph.inputs[0].name = "input_1"
    found, _ = search(model, add_norm)
    assert "the runtime failed" not in found.reason
    assert found.verdict in ("nothing", "outside")


def test_a_model_with_another_input_is_told(add_norm: Subject, search: Search) -> None:
    model = add_norm.model.clone()
    model.graph.inputs.append(ir.val("more", ir.DataType.FLOAT, ir.Shape([1])))
    found, _ = search(model, add_norm)
    assert found.verdict == "outside"
    assert "'more'" in found.reason


def test_a_result_is_read_again(block: Subject, search: Search) -> None:
    model = block.model.clone()
    planted.wrong_weight(model, node(model, "node_linear_4"))
    found, _ = search(model, block)
    assert dataclasses.is_dataclass(found)
    assert type(found).from_dict(found.to_dict()) == found
