"""A feed-forward whose rows are padded is compared as one that is not."""

from __future__ import annotations

from pathlib import Path

import onnx_ir as ir
import pytest
import torch
from torch import Tensor, nn

from ffn_export.core import onnx_file
from ffn_export.exporter.export import export_source
from ffn_export.exporter.source import from_module
from ffn_export.fusion.forms.padded_widths.units import RULE as PADDED
from ffn_export.fusion.pipeline import fuse
from ffn_export.parity.cases.case import sweep
from ffn_export.parity.checks.weights import compare_weights
from ffn_export.parity.reference.references import TorchReference
from tests.parity.bisection import planted
from tests.parity.bisection.conftest import Search, Subject

D_MODEL, D_FF = 1024, 2048


class Wide(nn.Module):
    """A feed-forward whose widths both ask for padding."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.up, self.down = nn.Linear(D_MODEL, D_FF), nn.Linear(D_FF, D_MODEL)
        self.norm = nn.LayerNorm(D_MODEL)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.norm(x + self.down(nn.functional.gelu(self.up(x))))
        return y


@pytest.fixture(scope="module")
def wide() -> Subject:
    source = from_module(Wide().eval(), {"x": f"float32[batch,seq,{D_MODEL}]"}, "wide")
    reference = TorchReference(source, 1)
    return Subject(source, export_source(source), reference, sweep(reference.inputs)[:1])


@pytest.fixture
def padded(wide: Subject, tmp_path: Path) -> ir.Model:
    fused, report = fuse(wide.model, "ort-cpu", forms=[PADDED])
    assert report.rules == {PADDED: 1}
    onnx_file.save(fused, tmp_path / "padded.onnx")
    return onnx_file.load(tmp_path / "padded.onnx")


@pytest.mark.slow
def test_nothing_differs(wide: Subject, padded: ir.Model, search: Search) -> None:
    found, _ = search(padded, wide)
    assert (found.verdict, found.alignment, found.unpaired) == ("nothing", "names", 0)


@pytest.mark.slow
def test_a_fault_between_the_products_is_named(wide: Subject, padded: ir.Model, search: Search) -> None:
    gelu = next(node for node in padded.graph if node.op_type == "Gelu")
    planted.other_attribute(padded, gelu)
    found, _ = search(padded, wide)
    assert found.part is not None
    assert found.part.node.name == gelu.name


@pytest.mark.slow
@pytest.mark.parametrize("place", [(5, 700), (5, -1), (-1, 5)])
def test_a_number_that_is_wrong_is_found_wherever_it_was_added(
    place: tuple[int, int], wide: Subject, padded: ir.Model
) -> None:
    metrics = compare_weights(padded, wide.source.module).traced
    assert {(each.parameter, each.differing) for each in metrics} == {
        (f"{layer}.{kind}", 0) for layer in ("up", "down", "norm") for kind in ("weight", "bias")
    }
    product = next(node for node in padded.graph if node.op_type == "MatMul")
    weight = product.inputs[1]
    assert weight is not None
    assert weight.const_value is not None
    array = weight.const_value.numpy().copy()
    array[place] += 1e-4
    weight.const_value = ir.tensor(array, name=weight.name)
    wrong = [each for each in compare_weights(padded, wide.source.module).traced if each.differing]
    assert [(each.parameter, each.differing) for each in wrong] == [("up.weight", 1)]
