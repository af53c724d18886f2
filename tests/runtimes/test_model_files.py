"""Weights that a session reads where they are in memory."""

from __future__ import annotations

import gc
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import TensorProto, helper, numpy_helper

from ffn_export.fusion_check.running import EVALUATOR, ORT, Runtimes
from ffn_export.runtimes.model_files import ModelFiles
from ffn_export.runtimes.ort_session import make_session
from ffn_export.runtimes.session_options import NO_OPTIMIZER, UNPACKED, SessionSettings

NUMBERS = np.random.default_rng(0).standard_normal((64, 64), np.float32)
FEEDS = {"x": np.random.default_rng(1).standard_normal((3, 64), np.float32)}
ON_DISK = {"float8_e4m3fn", "int4"}


def model(weight: onnx.TensorProto, body_weight: onnx.TensorProto | None = None) -> ir.Model:
    """Return ``x @ weight``, after a branch with a weight of its own where there is one."""
    nodes = [helper.make_node("Cast", ["w"], ["wide"], to=TensorProto.FLOAT)]
    if body_weight is not None:
        bodies = {
            f"{name}_branch": helper.make_graph(
                [helper.make_node("MatMul", ["x", read], [name])],
                name,
                [],
                [helper.make_tensor_value_info(name, TensorProto.FLOAT, None)],
                held,
            )
            for name, read, held in (("then", "inner", [body_weight]), ("else", "wide", []))
        }
        nodes.append(helper.make_node("If", ["yes"], ["h"], **bodies))
    nodes.append(helper.make_node("MatMul", ["x" if body_weight is None else "h", "wide"], ["y"]))
    yes = numpy_helper.from_array(np.array(True), "yes")
    given, made = (helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", 64]) for name in "xy")
    graph = helper.make_graph(nodes, "graph", [given], [made], [weight, yes])
    return ir.from_proto(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10))


@pytest.mark.parametrize(
    "dtype", ["float16", "float32", "float64", "int8", "uint16", "int64", "bool", "bfloat16", "float8_e4m3fn", "int4"]
)
def test_any_dtype_runs_as_from_a_file(tmp_path: Path, dtype: str) -> None:
    array = (3 * NUMBERS).astype(getattr(ml_dtypes, dtype, dtype))
    written = model(numpy_helper.from_array(array, "w"))
    _, arrays = ModelFiles(tmp_path).write_without_weights(written.clone())
    assert set(arrays) == (set() if dtype in ON_DISK else {"w"})

    expected = FEEDS["x"] @ array.astype(np.float32)
    for runtime, settings in ((ORT, UNPACKED), (ORT, NO_OPTIMIZER), (ORT, SessionSettings()), (EVALUATOR, UNPACKED)):
        with Runtimes(tmp_path, 1).loaded(written.clone(), runtime, settings) as run:
            np.testing.assert_allclose(run(FEEDS)["y"], expected, rtol=1e-4, atol=1e-4)


def test_weights_are_read_in_place_and_kept_once(tmp_path: Path) -> None:
    """Nothing is written but the graph; a tensor that two models share is one array."""
    files = ModelFiles(tmp_path)
    first = model(numpy_helper.from_array(NUMBERS, "w"))
    array = first.graph.initializers["w"].const_value = ir.Tensor(NUMBERS, name="w")
    path, arrays = files.write_without_weights(first.clone())
    assert np.shares_memory(arrays["w"], NUMBERS)
    assert files.write_without_weights(first.clone())[1]["w"] is arrays["w"]
    assert path.stat().st_size < array.nbytes
    assert [file.stat().st_size for file in tmp_path.iterdir() if file.suffix != ".onnx"] == [0]


def test_weights_of_a_file_are_mapped(tmp_path: Path) -> None:
    whole = model(numpy_helper.from_array(NUMBERS, "w"))
    ir.save(whole, tmp_path / "model.onnx", external_data="model.data")
    _, arrays = ModelFiles(tmp_path).write_without_weights(ir.load(tmp_path / "model.onnx"))
    assert isinstance(arrays["w"], np.memmap)
    np.testing.assert_array_equal(arrays["w"], NUMBERS)


def test_a_body_reads_its_own_weight_and_one_from_outside(tmp_path: Path) -> None:
    both = model(numpy_helper.from_array(NUMBERS, "w"), numpy_helper.from_array(2 * NUMBERS, "inner"))
    with Runtimes(tmp_path, 1).loaded(both, ORT, UNPACKED) as run:
        y = run(FEEDS)["y"]
    np.testing.assert_allclose(y, 2 * FEEDS["x"] @ NUMBERS @ NUMBERS, rtol=1e-3, atol=1e-3)


@pytest.mark.slow
def test_a_session_holds_what_it_reads_in_place(tmp_path: Path) -> None:
    path, arrays = ModelFiles(tmp_path).write_without_weights(model(numpy_helper.from_array(NUMBERS, "w")))
    session = make_session(path, UNPACKED, 1, weights=arrays)
    arrays.clear()
    gc.collect()
    assert session.shared_initializers.keys() == {"w"}
    np.testing.assert_allclose(session.run(None, FEEDS)[0], FEEDS["x"] @ NUMBERS, rtol=1e-4, atol=1e-4)
