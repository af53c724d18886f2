"""An inspection says what a file holds, whatever is wrong with the file."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest

import ffn_export as fx
from ffn_export.calibration.calibrated import quantize_by_samples
from ffn_export.core import onnx_file
from ffn_export.errors import UsageError
from ffn_export.exporter.export import export_source
from ffn_export.exporter.source import Source
from ffn_export.inspection.inspect import inspect
from ffn_export.inspection.result import Inspection
from ffn_export.quantization.options import QuantizationOptions

GetSource = Callable[[str], Source]


@pytest.fixture
def exported(source: GetSource, tmp_path: Path) -> Callable[..., Path]:
    """Write a preset as it comes from the exporter."""

    def write(spec: str, opset: int = 18, external_above: int | None = None) -> Path:
        path = tmp_path / f"{spec}.onnx"
        model = export_source(source(spec), opset)
        onnx_file.save(model, path, **({} if external_above is None else {"external_above": external_above}))
        return path

    return write


@pytest.mark.slow
def test_sites_are_shown_before_and_after(exported: Callable[..., Path]) -> None:
    found = inspect(exported("llama-ffn"), "ort")
    norm, feed_forward = sorted(found.sites, key=lambda site: site.kind, reverse=True)
    assert (norm.kind, norm.form_now, norm.form_after, norm.rule) == (
        "norm",
        "Pow ReduceMean Add Sqrt Reciprocal Mul Mul",
        "RMSNormalization",
        "rms-norm+norm-scale",
    )
    assert feed_forward.form_now is not None
    assert sorted(feed_forward.form_now.split()) == ["MatMul", "MatMul", "MatMul", "Mul", "Mul", "Sigmoid"]
    assert "QuickGelu" in feed_forward.form_after
    assert found.nodes["before"] == sum(found.operators.values()) > found.nodes["after"]


@pytest.mark.slow
def test_bytes_are_counted_once_and_part_by_part(exported: Callable[..., Path]) -> None:
    path = exported("d2l-ffn-addnorm")
    found = inspect(path)
    assert {part.name: part.bytes for part in found.parts} == {"feed_forward": 304, "norm": 32}
    assert found.weights_bytes == onnx_file.weight_bytes(onnx_file.load(path))
    assert found.largest[0].bytes == 128
    assert {site.kind: site.bytes for site in found.sites}["feed_forward"] == 304


@pytest.mark.slow
def test_a_kept_site_says_why_and_has_its_form_already(exported: Callable[..., Path]) -> None:
    kept = next(s for s in inspect(exported("d2l-ffn-addnorm"), "portable").sites if s.kind == "residual_norm")
    assert (kept.status, kept.form_now, kept.form_after) == ("kept", "Add LayerNormalization", "Add LayerNormalization")
    assert kept.reason == "the standard has no operator for a residual sum and its norm"


@pytest.mark.slow
def test_missing_external_data_is_said_and_the_sites_are_found_all_the_same(exported: Callable[..., Path]) -> None:
    path = exported("llama-ffn", external_above=0)
    whole = inspect(path)
    path.with_name(f"{path.name}.data").unlink()
    found = inspect(path)
    assert "'llama-ffn.onnx.data' is missing" in found.notes[0]
    assert found.weights_bytes == whole.weights_bytes
    assert [site.kind for site in found.sites if site.kind == "feed_forward"] == ["feed_forward"]


def test_an_embedding_is_a_part_of_its_own_and_foreign_operators_are_named(tmp_path: Path) -> None:
    table = onnx.numpy_helper.from_array(np.ones((5, 4), np.float32), "table")
    nodes = [
        onnx.helper.make_node("Gather", ["table", "ids"], ["x"]),
        onnx.helper.make_node("Frobnicate", ["x"], ["y"], domain="org.example"),
    ]
    ids = onnx.helper.make_tensor_value_info("ids", onnx.TensorProto.INT64, ["n"])
    y = onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None)
    model = onnx.helper.make_model(
        onnx.helper.make_graph(nodes, "g", [ids], [y], [table]),
        opset_imports=[onnx.helper.make_opsetid("", 20), onnx.helper.make_opsetid("org.example", 3)],
    )
    onnx.save(model, tmp_path / "m.onnx")
    found = inspect(tmp_path / "m.onnx")
    assert [(part.name, part.bytes) for part in found.parts] == [("embedding", 80)]
    assert found.outside_standard == ("org.example::Frobnicate",)
    assert found.outputs[0] == {"name": "y", "dtype": "float32", "shape": None}
    assert found.sites == ()


@pytest.mark.parametrize("options", [QuantizationOptions(int8=True), QuantizationOptions(static="qnn")])
def test_weights_in_8_bits_are_called_that(options: QuantizationOptions, tmp_path: Path) -> None:
    model, report = quantize_by_samples(
        fx.fuse(fx.export("d2l-ffn"))[0], options, {"x": np.ones((1, 2, 4), np.float32)}
    )
    onnx_file.save(model, tmp_path / "q.onnx")
    parts = {part.name: part for part in inspect(tmp_path / "q.onnx").parts}
    assert parts["quantized product"].bytes >= report.bytes_after


@pytest.mark.slow
def test_a_graph_in_the_wrong_order_is_inspected(exported: Callable[..., Path]) -> None:
    path = exported("d2l-ffn")
    proto = onnx.load(path)
    nodes = list(reversed(proto.graph.node))
    del proto.graph.node[:]
    proto.graph.node.extend(nodes)
    onnx.save(proto, path)
    assert [site.kind for site in inspect(path).sites] == ["feed_forward"]


@pytest.mark.slow
def test_it_reads_back(exported: Callable[..., Path]) -> None:
    found = inspect(exported("d2l-ffn-addnorm"))
    assert Inspection.from_dict(json.loads(json.dumps(found.to_dict()))) == found


def test_what_is_no_model_is_refused(tmp_path: Path) -> None:
    (tmp_path / "text.onnx").write_text("no model")
    for name in ("text.onnx", "gone.onnx", "."):
        with pytest.raises(UsageError):
            inspect(tmp_path / name)
    ir.save(ir.Model(ir.Graph([], [], nodes=[], opset_imports={"": 20}), ir_version=10), tmp_path / "empty.onnx")
    with pytest.raises(UsageError, match="it has no outputs"):
        inspect(tmp_path / "empty.onnx")


def test_a_model_without_nodes_and_a_target_that_is_none(tmp_path: Path) -> None:
    x = ir.Value(name="x", type=ir.TensorType(ir.DataType.FLOAT), shape=ir.Shape(["n"]))
    ir.save(ir.Model(ir.Graph([x], [x], nodes=[], opset_imports={"": 20}), ir_version=10), tmp_path / "same.onnx")
    assert inspect(tmp_path / "same.onnx").operators == {}
    with pytest.raises(UsageError, match="did you mean 'ort-cpu'"):
        inspect(tmp_path / "same.onnx", "ort-cup")
