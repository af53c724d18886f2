"""Padded widths are taken back: by fusing again, by quantising, and before two graphs are compared."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest
from onnxruntime.quantization import quantize_dynamic

from ffn_export.core import onnx_file
from ffn_export.fusion.forms.padded_widths.remove import remove
from ffn_export.fusion.forms.padded_widths.units import RULE as PADDED
from ffn_export.fusion.forms.padded_widths.units import Padding, note, padded, paddings_of, plain
from ffn_export.fusion.pipeline import fuse
from ffn_export.quantization.quantize import quantize
from tests.fusion.feed_forwards import GATED, PACKED, PLAIN
from tests.fusion.forms.padded_widths.test_apply import BOTH, FORMS, NAMED_HALVES, WIDE, made, weights
from tests.fusion.graphs import assert_same_function, operators

PLAIN_FORMS: list[str] = []


def stored(of: ir.Model, path: Path) -> ir.Model:
    """Return a model as it comes back from a file."""
    onnx_file.save(of, path)
    return onnx_file.load(path)


@pytest.mark.parametrize(("body", "widths"), [(PLAIN, BOTH), (GATED, BOTH), (PACKED, BOTH), (NAMED_HALVES, WIDE)])
def test_a_file_is_again_what_it_was_to_the_last_bit(body: str, widths: tuple[int, int], tmp_path: Path) -> None:
    of = made(body, widths)
    fused = stored(fuse(of, "ort-cpu", forms=FORMS)[0], tmp_path / "padded.onnx")
    assert remove(fused)
    expected = fuse(of, "ort-cpu", forms=PLAIN_FORMS)[0]
    assert operators(fused) == operators(expected)
    shapes = {v.name: v.shape for node in fused.graph for v in node.outputs}
    assert shapes.items() <= {v.name: v.shape for node in expected.graph for v in node.outputs}.items()
    for name, value in expected.graph.initializers.items():
        if body is NAMED_HALVES and value.dtype == ir.DataType.INT64:
            continue  # a Constant node, and an initializer here
        again = fused.graph.initializers[name].const_value
        assert again is not None
        assert value.const_value is not None
        np.testing.assert_array_equal(again.numpy(), value.const_value.numpy())
    assert not any(PADDED in text for node in fused.graph for text in node.metadata_props.values())
    assert_same_function(of, fused)
    assert not remove(fused)


@pytest.mark.parametrize("target", ["portable", "ort", "ort-cpu"])
def test_fusing_again_is_fusing_what_there_was_before(target: str, tmp_path: Path) -> None:
    of = made(PLAIN, BOTH)
    fused = stored(fuse(of, "ort-cpu", forms=FORMS)[0], tmp_path / "padded.onnx")
    again, report = fuse(fused, target, forms=PLAIN_FORMS)
    expected, _ = fuse(of, target, forms=PLAIN_FORMS)
    assert operators(again) == operators(expected)
    assert weights(again) == weights(expected)
    assert PADDED not in report.rules


def test_padding_again_changes_nothing(tmp_path: Path) -> None:
    once = stored(fuse(made(PLAIN, BOTH), "ort-cpu", forms=FORMS)[0], tmp_path / "padded.onnx")
    twice, _ = fuse(once, "ort-cpu", forms=FORMS)
    assert weights(twice) == weights(once)
    assert operators(twice) == operators(once)


@pytest.mark.parametrize("name", ["w1_padded", "b1_padded", "w2_padded"])
def test_nothing_is_removed_where_a_number_was_changed(name: str) -> None:
    """What is left without it would compute something else."""
    fused, _ = fuse(made(PLAIN, BOTH), "ort-cpu", forms=FORMS)
    value = fused.graph.initializers[name]
    assert value.const_value is not None
    array = value.const_value.numpy().copy()
    array[(-1,) if name != "w1_padded" else (0, -1)] += 1
    value.const_value = ir.tensor(array, name=name)
    assert not remove(fused)
    again, _ = fuse(fused, "ort-cpu", forms=FORMS)
    assert_same_function(fused, again)


def test_nothing_is_removed_where_the_input_is_no_longer_padded_by_us() -> None:
    fused, _ = fuse(made(PLAIN, BOTH), "ort-cpu", forms=FORMS)
    pad = next(node for node in fused.graph if node.op_type == "Pad")
    pad.metadata_props.clear()
    assert not remove(fused)


def test_nothing_is_removed_where_somebody_else_reads_what_grew() -> None:
    """What they read would be another thing."""
    fused, _ = fuse(made(PLAIN, BOTH), "ort-cpu", forms=FORMS)
    grown = next(node for node in fused.graph if node.op_type == "Gelu").outputs[0]
    fused.graph.outputs.append(grown)
    assert not remove(fused)
    assert str(grown.name).endswith("_padded")
    again, _ = fuse(fused, "ort-cpu", forms=FORMS)
    assert [value.name for value in again.graph.outputs] == ["y", grown.name]
    assert_same_function(fused, again)


def test_nothing_is_removed_of_what_another_tool_quantised(tmp_path: Path) -> None:
    fused, _ = fuse(made(PLAIN.replace("Gelu", "Relu"), WIDE), "ort-cpu", forms=FORMS)
    onnx_file.save(fused, tmp_path / "padded.onnx")
    quantize_dynamic(tmp_path / "padded.onnx", tmp_path / "quantized.onnx")
    few_bits = onnx_file.load(tmp_path / "quantized.onnx")
    again, _ = fuse(few_bits, "ort-cpu", forms=PLAIN_FORMS)
    assert_same_function(few_bits, again)


def test_sizes_of_the_padding_in_a_constant_node() -> None:
    of = made(PLAIN, BOTH)
    fused, _ = fuse(of, "ort-cpu", forms=FORMS)
    pad = next(node for node in fused.graph if node.op_type == "Pad")
    sizes = pad.inputs[1]
    assert sizes is not None
    constant = ir.node("Constant", [], {"value": sizes.const_value})
    fused.graph.insert_before(pad, constant)
    pad.replace_input_with(1, constant.outputs[0])
    assert remove(fused)
    assert "Pad" not in operators(fused)
    assert_same_function(of, fused)


@pytest.mark.slow
@pytest.mark.parametrize("body", [PLAIN, GATED, PACKED, NAMED_HALVES])
def test_functions_are_written_out_before(body: str, tmp_path: Path) -> None:
    of = made(body, BOTH)
    padded, _ = fuse(of, "ort-cpu", forms=FORMS)
    outlined = stored(fuse(padded, "ort-native")[0], tmp_path / "outlined.onnx")
    assert_same_function(of, outlined)
    again, _ = fuse(outlined, "ort-cpu", forms=PLAIN_FORMS)
    assert weights(again) == weights(of)
    assert_same_function(of, again)


@pytest.mark.slow
def test_quantising_takes_it_back(tmp_path: Path) -> None:
    of = made(PLAIN, BOTH)
    fused = stored(fuse(of, "ort-cpu", forms=FORMS)[0], tmp_path / "padded.onnx")
    few_bits, report = quantize(fused)
    assert [weight.shape for weight in report.weights] == [BOTH, BOTH]
    expected, _ = quantize(fuse(of, "ort-cpu", forms=PLAIN_FORMS)[0])
    assert operators(few_bits) == operators(expected)


@pytest.mark.parametrize(
    "paddings",
    [
        (Padding(0, "zeros"),),
        (Padding(1, "again", 2),),
        (Padding(0, "halved"),),
        (Padding(0, "zeros"), Padding(1, "again")),
    ],
)
def test_what_is_added_to_an_array_is_taken_from_it(paddings: tuple[Padding, ...]) -> None:
    array = np.random.default_rng(0).standard_normal((64, 128)).astype(np.float32)
    grown = padded(array, paddings)
    assert grown.dtype == array.dtype
    np.testing.assert_array_equal(plain(grown, paddings), array)


@pytest.mark.parametrize(
    "text", ["0", "0:ones:1", "x:zeros:1", "0:zeros:0", "5:zeros:1", "0:zeros:1 0:again:1", "0:zeros:3"]
)
def test_a_note_that_does_not_fit_is_none(text: str) -> None:
    value = ir.Value(name="w", shape=ir.Shape([64, 64]), type=ir.TensorType(ir.DataType.FLOAT))
    note(value, [Padding(0, "zeros")], "w")
    assert paddings_of(value) == (Padding(0, "zeros"),)
    key = next(key for key, noted in value.metadata_props.items() if noted == "0:zeros:1")
    value.metadata_props[key] = text
    assert paddings_of(value) == ()
