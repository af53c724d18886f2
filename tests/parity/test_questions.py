"""Which properties a reference has, and which faults in a graph break them."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import numpy as np
import pytest
import torch
from onnx_ir.tape import Tape
from torch import nn

from ffn_export.core import onnx_file
from ffn_export.core.types import Array
from ffn_export.exporter.export import export_source
from ffn_export.exporter.source import Source, from_module
from ffn_export.parity.cases.case import sweep
from ffn_export.parity.checks.properties import SAME_BITS, ask, questions
from ffn_export.parity.judging import verdict
from ffn_export.parity.judging.result import ParityResult
from ffn_export.parity.judging.run_cases import run_cases
from ffn_export.parity.judging.tolerances import Tolerances
from ffn_export.parity.reference.references import TorchReference
from ffn_export.runtimes.base import Runner

TOKENS = {"x": "float32[batch,seq,8]"}


class Block(nn.Module):
    """A position-wise network."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.up, self.down, self.norm = nn.Linear(8, 16), nn.Linear(16, 8), nn.LayerNorm(8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.norm(x + self.down(torch.nn.functional.gelu(self.up(x))))
        return y


class Attention(Block):
    """One whose tokens see each other."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(torch.softmax(x @ x.transpose(1, 2), -1) @ x)


def asked(module: nn.Module) -> dict[str, list[str]]:
    """Return the properties that hold, by axis."""
    source = from_module(module.eval(), TOKENS)
    reference = TorchReference(source, 1)
    found: dict[str, list[str]] = {"batch": [], "seq": []}
    for question in questions(reference, sweep(source.inputs)[0]):
        name = question.name
        found["batch" if "'batch'" in name else "seq"].append(name.split()[0])
        assert question.axes == {"y": 0 if "'batch'" in name else 1} or len(question.axes) == 1
    return found


ALL = ["permuting", "results", "padding", "a"]


def test_a_position_wise_network_has_them_along_both_axes() -> None:
    assert asked(Block()) == {"batch": ALL, "seq": ALL}


def test_attention_has_them_along_the_batch_and_is_permuted_with_its_tokens() -> None:
    assert asked(Attention()) == {"batch": ALL, "seq": ["permuting"]}


@pytest.mark.parametrize("fill", [-1e9, float(np.finfo(np.float32).min), -np.inf, np.nan])
@pytest.mark.parametrize(("kind", "along_seq"), [(Block, ALL), (Attention, ["permuting"])])
def test_fills_hide_no_dependence(kind: type[Block], along_seq: list[str], fill: float) -> None:
    class Filled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = kind()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.where(torch.arange(8) < 2, fill, self.inner(x))

    assert asked(Filled()) == {"batch": ALL, "seq": along_seq}


def test_a_norm_over_the_batch_has_none_there() -> None:
    module = nn.Sequential(nn.Linear(8, 8))
    module.forward = lambda x: x - x.mean(0, keepdim=True)  # type: ignore[method-assign]
    assert asked(module) == {"batch": ["permuting"], "seq": ALL}


def planted(tmp_path: Path, fault: str) -> tuple[Source, ParityResult]:
    """Verify a block whose graph adds something to its result."""
    source = from_module(Block().eval(), TOKENS)
    model = export_source(source)
    (y,) = model.graph.outputs
    x = model.graph.inputs[0]
    if fault:
        tape = Tape()
        wrong = tape.op("ReduceMean", [x], {"keepdims": 1}) if fault == "leak" else tape.op("RandomNormalLike", [y])
        small = tape.op("Constant", [], {"value_float": 1e-7 if fault == "leak" else 2e-8})
        added = tape.op("Add", [y, tape.op("Mul", [wrong, small])])
        model.graph.extend(tape.nodes)
        y.name, added.name = "right", y.name
        added.shape, added.type = y.shape, y.type
        model.graph.outputs[0] = added
    path = tmp_path / "model.onnx"
    onnx_file.save(model, path)
    return source, run_cases(path, TorchReference(source, 1), runtimes=["ort-cpu"])


@pytest.mark.slow
def test_the_right_graph_has_them_all(tmp_path: Path) -> None:
    _, result = planted(tmp_path, "")
    assert result.passed, result.failures
    assert len(result.properties) == 9
    assert [p.exact for p in result.properties] == [False] * 8 + [True]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fault", "broken"),
    [("leak", {"results along 'batch'", "results along 'seq'"}), ("noise", {SAME_BITS})],
)
def test_a_fault_that_no_bound_sees_breaks_one(tmp_path: Path, fault: str, broken: set[str]) -> None:
    _, result = planted(tmp_path, fault)
    assert not any(case.failure(result.tolerances) for case in result.cases if case.values == "normal")
    failing = {p.property for p in result.properties if verdict.property_failure(p, result.tolerances)}
    assert {name for name in broken if any(each.startswith(name) for each in failing)} == broken
    assert not result.passed


@pytest.mark.slow
def test_a_stored_result_keeps_them(tmp_path: Path) -> None:
    _, result = planted(tmp_path, "noise")
    assert ParityResult.from_dict(result.to_dict()).properties == result.properties


@pytest.mark.slow
def test_dynamic_quantisation_breaks_independence_and_is_named(tmp_path: Path) -> None:
    from onnxruntime.quantization import QuantType, quantize_dynamic

    source = from_module(Block().eval(), TOKENS)
    onnx_file.save(export_source(source), tmp_path / "model.onnx")
    quantize_dynamic(tmp_path / "model.onnx", tmp_path / "int8.onnx", weight_type=QuantType.QInt8)
    declared = Tolerances(relative_l2=0.05)
    result = run_cases(tmp_path / "int8.onnx", TorchReference(source, 1), runtimes=["ort-cpu"], tolerances=declared)
    failing = {p.property for p in result.properties if verdict.property_failure(p, declared)}
    assert {
        "results along 'batch' do not depend on each other",
        "results along 'seq' do not depend on each other",
    } <= failing
    assert result.notes == (
        "DynamicQuantizeLinear rounds by the largest number of its whole input, so a result depends on the other "
        "tokens and on the batch",
    )


class Flickers:
    """A runtime that gives NaN in the first of two runs on the same inputs."""

    def __init__(self) -> None:
        self._results = iter([np.full((2, 3), np.nan, np.float32), np.zeros((2, 3), np.float32)])

    def run(self, feeds: object) -> dict[str, Array]:
        del feeds
        return {"y": next(self._results)}


def test_nan_in_the_first_of_two_runs_alone_is_not_the_same() -> None:
    (found,) = ask("flickers", cast(Runner, Flickers()), {}, (), {})
    assert (found.property, found.problem) == (SAME_BITS, "6 elements are NaN or infinite in one setting alone")


class Masked(nn.Module):
    """A block that leaves out what a mask says."""

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return torch.where(mask[..., None], x * 2, 0.0)


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int8"])
def test_an_input_of_any_dtype_can_be_padded(dtype: str) -> None:
    class Cast(Masked):
        def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
            return super().forward(x, mask != 0)

    source = from_module(Cast(), {"x": TOKENS["x"], "mask": f"{dtype}[batch,seq]"})
    (case, *_) = sweep(source.inputs, source.example)
    asked = questions(TorchReference(source, 1), case)
    assert any("padding along 'seq'" in setting.name for setting in asked)
    assert {str(setting.feeds["mask"].dtype) for setting in asked} == {dtype}
