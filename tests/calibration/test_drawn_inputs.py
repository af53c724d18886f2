"""8-bit activations are smoothed on drawn inputs without samples, and beside samples that are integers."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest
import torch

import ffn_export as fx
from ffn_export.calibration.calibrated import known, quantize_by_samples
from ffn_export.calibration.statistics import drawn_inputs
from ffn_export.core.tensor_spec import parse_inputs
from ffn_export.core.types import Array
from ffn_export.quantization.options import QuantizationOptions
from ffn_export.quantization.smoothing import IN_NORM
from ffn_export.runtimes.in_place import load_in_place

INT8 = QuantizationOptions(int8=True)
LARGE = [3, 40]


@pytest.fixture(scope="module")
def model() -> ir.Model:
    """A feed-forward behind a norm with two large channels, as whole models have them."""
    torch.manual_seed(0)
    norm, up, down = torch.nn.LayerNorm(64), torch.nn.Linear(64, 96), torch.nn.Linear(96, 64)
    with torch.no_grad():
        norm.weight[LARGE] *= 60
        up.weight[:, LARGE] /= 30
    module = torch.nn.Sequential(norm, up, torch.nn.GELU(), down).eval()
    return fx.fuse(fx.export(module, {"x": "float32[batch,seq,64]"}))[0]


def drawn(shape: tuple[int, ...], seed: int = 0) -> dict[str, Array]:
    return {"x": np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)}


def test_they_have_some_hundred_tokens_within_the_bounds_of_the_axes() -> None:
    (x,) = drawn_inputs(parse_inputs({"x": "float32[batch,seq,16]"})).values()
    assert x.shape == (8, 32, 16)
    ids, mask = drawn_inputs(parse_inputs({"ids": "int64[batch,seq<=12]", "mask": "float32[1,seq<=12]"})).values()
    assert (ids.shape, mask.shape) == ((8, 12), (1, 12))


@pytest.mark.slow
def test_other_inputs_are_twice_as_precise_with_them(model: ir.Model) -> None:
    plain, unmeasured = quantize_by_samples(model, INT8, None)
    smooth, report = quantize_by_samples(model, INT8, None, 1, drawn((8, 32, 64)))
    assert {each.smoothing for each in unmeasured.weights} == {"not smoothed: not measured on samples or drawn inputs"}
    assert report.weights[0].smoothing == IN_NORM
    others = drawn((3, 9, 64), seed=1)
    wanted, *found = (next(iter(load_in_place(each, 1).run(others).values())) for each in (model, plain, smooth))
    of_plain, of_smooth = (np.linalg.norm(each - wanted) for each in found)
    assert of_smooth < of_plain / 2


def test_samples_of_floats_take_their_place(model: ir.Model) -> None:
    by_samples = known(model, INT8, drawn((4, 9, 64), seed=1), 1).channels
    both = known(model, INT8, drawn((4, 9, 64), seed=1), 1, drawn((8, 32, 64))).channels
    assert by_samples.keys() == both.keys()
    for name, channels in by_samples.items():
        np.testing.assert_array_equal(channels.largest, both[name].largest)


class _Embedded(torch.nn.Module):
    """A norm and a product behind a table whose later rows have large channels of their own."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.norm, self.up = torch.nn.Embedding(32, 64), torch.nn.LayerNorm(64), torch.nn.Linear(64, 96)
        with torch.no_grad():
            self.table.weight[16:, LARGE] = 100

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.gelu(self.up(self.norm(self.table(ids))))


@pytest.mark.slow
def test_samples_of_integers_are_joined_by_them() -> None:
    torch.manual_seed(0)
    model = fx.fuse(fx.export(_Embedded().eval(), {"ids": "int64[batch,seq]"}))[0]
    every, few = np.arange(32).repeat(8).reshape(8, 32), np.arange(16).repeat(4).reshape(4, 16)
    options = QuantizationOptions(int8=True, all_products=True)
    alone = known(model, options, {"ids": few}, 1).channels
    joined = known(model, options, {"ids": few}, 1, {"ids": every}).channels
    assert alone.keys() == joined.keys()
    for name, channels in alone.items():
        assert (channels.largest[LARGE] < 5).all()
        assert (joined[name].largest[LARGE] > 5).all()
        np.testing.assert_array_equal(channels.squares, joined[name].squares)
        assert len(joined[name].rows) > len(channels.rows)


def test_few_rows_tell_too_little(model: ir.Model) -> None:
    assert not known(model, INT8, None, 1, drawn((1, 31, 64))).channels
    assert known(model, INT8, None, 1, drawn((1, 32, 64))).channels


@pytest.mark.usefixtures("as_in_production")
def test_a_model_that_refuses_them_is_not_smoothed(model: ir.Model) -> None:
    assert not known(model, INT8, None, 1, drawn((8, 32, 63))).channels
