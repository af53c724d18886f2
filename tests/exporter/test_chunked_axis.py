"""The pieces of an axis are right at every size, also at those that give fewer of them or a remainder."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from ffn_export.errors import ExportError
from ffn_export.exporter.export import export_source
from ffn_export.exporter.source import from_module
from tests.exporter.helpers import X, assert_same_function, module_of, ops

SIZES = [{"batch": b, "seq": n} for b, n in ((1, 1), (2, 2), (3, 4), (2, 5), (1, 6), (2, 41), (1, 0))]


def each_apart(self: Any, pieces: Any) -> torch.Tensor:
    return torch.cat([self.linear(piece) for piece in reversed(pieces)], 1)


@pytest.mark.slow
@pytest.mark.parametrize(
    "forward",
    [
        lambda self, x: each_apart(self, x.chunk(3, 1)),
        pytest.param(lambda self, x: each_apart(self, torch.chunk(x, chunks=4, dim=-2)), marks=pytest.mark.exhaustive),
        lambda self, x: each_apart(self, x.tensor_split(2, 1)),
        pytest.param(lambda self, x: each_apart(self, torch.tensor_split(x, 3, dim=-2)), marks=pytest.mark.exhaustive),
        lambda self, x: each_apart(self, torch.tensor_split(x, (1, 2), dim=1)),
        lambda self, x: torch.cat(self.linear(x).chunk(2, -1)[::-1], -1),  # of a size that is known
    ],
)
def test_pieces_of_an_axis(forward: Callable[..., Any]) -> None:
    source = from_module(module_of(forward, linear=nn.Linear(4, 4)), X)
    assert_same_function(source, export_source(source), *SIZES)


@pytest.mark.slow
def test_pieces_within_bounds_below_the_size_of_the_trace() -> None:
    module = module_of(lambda self, x: each_apart(self, x.tensor_split(3, 1)), linear=nn.Linear(4, 4))
    source = from_module(module, {"x": "float32[batch,4<=seq<=40,4]"})
    assert_same_function(source, export_source(source), *({"batch": 2, "seq": size} for size in (4, 5, 6, 40)))


@pytest.mark.slow
def test_a_module_that_counts_its_pieces_is_refused() -> None:
    module = module_of(lambda self, x: x.sum() / len(x.chunk(4, 1)))
    with pytest.raises(ExportError, match=r"forward takes another branch|bounds axis 'seq'"):
        export_source(from_module(module, X))


def test_a_module_that_fixes_a_size_is_refused_as_before() -> None:
    """A second trace at larger sizes does not hide it."""
    with pytest.raises(ExportError, match="axis 'seq' of input 'x' is specialised to 3"):
        export_source(from_module(module_of(lambda self, x: x * float(x.shape[1])), X))


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["int64", "int32", "uint8"])
def test_a_number_less_an_integer_mask(dtype: str) -> None:
    def forward(self: Any, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return x + (1.0 - mask[..., None]) * -10.0 + torch.rsub(mask[..., None], 1.5, alpha=2) + (1 - x)

    source = from_module(module_of(forward), {"x": "float32[batch,seq,4]", "mask": f"{dtype}[batch,seq]"})
    model = export_source(source)
    assert "Sub" in ops(model)
    assert_same_function(source, model, {"batch": 2, "seq": 5}, {"batch": 1, "seq": 1})
