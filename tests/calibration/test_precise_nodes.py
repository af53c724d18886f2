"""Nodes of native kernels that take a higher precision, so that a model keeps its budget."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest
import torch

import ffn_export as fx
from ffn_export.calibration.precise_nodes import keep_budget, with_precisions
from ffn_export.cli.main import run
from ffn_export.core.types import silent
from ffn_export.runtimes.ort_native import INT8
from tests.calibration.sources import OUTLIERS, module_of
from tests.native.provider import needs_kernel, needs_provider

pytestmark = [needs_provider, pytest.mark.slow]
FEEDS = {"x": np.random.default_rng(0).standard_normal((2, 8, 64), dtype=np.float32)}


def outliers() -> torch.nn.Module:
    return module_of(OUTLIERS, "outliers")


@pytest.fixture(scope="module")
def fused() -> ir.Model:
    exported = fx.export(outliers(), (torch.from_numpy(FEEDS["x"]),))
    return fx.fuse(exported, target="ort-native")[0]


def precisions(model: ir.Model) -> list[str]:
    return [node.attributes.get_string("precision", "") for node in model.graph if node.domain == "ai.ffn_export"]


def test_as_many_nodes_as_the_budget_allows_stay_in_8_bits(fused: ir.Model) -> None:
    needs_kernel("int8")
    (name,) = [value.name for value in fused.graph.inputs]
    feeds = {str(name): FEEDS["x"]}
    found = keep_budget(fused, INT8, feeds, 0.009, 1, silent)
    assert found is not None
    stated = precisions(found.model)
    assert sorted(set(stated)) == ["bf16", "int8"]
    raised = [node.name for node, precision in zip(found.model.graph, stated, strict=True) if precision == "bf16"]
    assert list(found.raised) == raised
    assert found.told == f"{len(raised)} of 4 nodes compute in bf16 to keep the budget: {', '.join(map(str, raised))}"
    assert precisions(fused) == [""] * 4


def test_more_nodes_are_raised_where_other_inputs_exceed_the_budget(fused: ir.Model) -> None:
    needs_kernel("int8")
    feeds = {str(fused.graph.inputs[0].name): FEEDS["x"]}
    found = keep_budget(fused, INT8, feeds, 0.1, 1, silent, lambda made: precisions(made).count("int8") < 3)
    assert found is not None
    assert precisions(found.model).count("int8") == 2


@pytest.mark.parametrize("budget", [1e-6, 0.1])
def test_none_where_no_node_may_stay_in_8_bits_or_all_may(fused: ir.Model, budget: float) -> None:
    needs_kernel("int8")
    assert keep_budget(fused, INT8, {str(fused.graph.inputs[0].name): FEEDS["x"]}, budget, 1, silent) is None


def test_a_model_with_stated_precisions_runs_anywhere(fused: ir.Model, tmp_path: Path) -> None:
    fx.save(with_precisions(fused, (), "int8", "bf16"), tmp_path / "model.onnx")
    for runtime in ("ort-cpu", "reference"):
        assert fx.verify(tmp_path / "model.onnx", against=outliers(), runtimes=[runtime], fast=True).passed
    again, _ = fx.fuse(tmp_path / "model.onnx", target="portable")
    assert [node.op_type for node in again.graph] == ["MatMul", "Add"] * 4


def test_a_build_over_its_budget_raises_the_precision_of_some_nodes(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    needs_kernel("int8")
    monkeypatch.chdir(tmp_path)
    Path("layers.py").write_text(OUTLIERS)
    np.savez("x.npz", x=FEEDS["x"])
    words = ["build", "layers:outliers", "--input", "x:float32[B,S,64]", "--target", "ort-native"]
    assert run([*words, "--precision", "int8", "--budget", "0.009", "--samples", "x.npz", "-o", "out", "--fast"]) == 0
    assert "of 4 nodes compute in bf16 to keep the budget: " in capfd.readouterr().err
    session = fx.load(Path("out/outliers"))
    assert session.info["precision"] == "int8"
