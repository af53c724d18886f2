"""Inputs that are found from example tensors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import ffn_export as fx
from ffn_export.errors import UsageError
from ffn_export.exporter.examples import find_inputs
from tests.exporter.helpers import refusal


class Masked(nn.Module):
    """A linear layer, and a mask over rows."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 8)

    def forward(self, x: Tensor, scale: Tensor | None = None, *, mask: Tensor | None = None) -> Tensor:
        y: Tensor = self.linear(x)
        y = y if scale is None else y * scale
        return y if mask is None else y * mask[..., None]


class Encoder(nn.Module):
    """Attention with a padding mask."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)

    def forward(self, x: Tensor, padding: Tensor) -> Tensor:
        y: Tensor = self.layer(x, src_key_padding_mask=padding)
        return y


class Positions(nn.Module):
    """Embeddings with a table of positions."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.positions = nn.Embedding(32, 8), nn.Embedding(64, 8)

    def forward(self, ids: Tensor) -> Tensor:
        y: Tensor = self.words(ids) + self.positions(torch.arange(ids.shape[1]))
        return y


class Scores(nn.Module):
    """A mask that is added to scores, and broadcast."""

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        return torch.softmax(x @ x.transpose(-1, -2) + mask, -1) @ x


NONE = torch.zeros(1, 5, dtype=torch.bool)
LONG = torch.long


@pytest.mark.slow
@pytest.mark.parametrize(
    ("module", "examples", "found"),
    [
        (nn.Linear(8, 4), torch.ones(1, 8), {"input": "float32[batch,8]"}),
        (nn.Linear(8, 4), np.ones((2, 3, 8), np.float32), {"input": "float32[batch,seq,8]"}),
        (nn.LayerNorm((5, 8)), torch.ones(4, 5, 8), {"input": "float32[batch,5,8]"}),
        (nn.Conv1d(8, 4, 1), torch.ones(2, 8, 9), {"input": "float32[batch,8,input_2]"}),
        (Encoder(), (torch.ones(1, 5, 8), NONE), {"x": "float32[batch,seq,8]", "padding": "bool[batch,seq]{0..1}"}),
        (Positions(), torch.zeros(1, 7, dtype=LONG), {"ids": "int64[batch,seq<=64]{0..31}"}),
        (
            Scores(),
            (torch.ones(4, 4, 8), torch.ones(1, 4, 4)),
            {"x": "float32[batch,seq,x_2]", "mask": "float32[1,seq,seq]"},
        ),
        (Masked(), (torch.ones(2, 3, 8), None), {"x": "float32[batch,seq,8]"}),
        (
            Masked(),
            {"x": torch.ones(2, 3, 8), "mask": torch.ones(2, 3, dtype=LONG)},
            {"x": "float32[batch,seq,8]", "mask": "int64[batch,seq]{mask}"},
        ),
    ],
)
def test_names_and_axes_are_found(module: nn.Module, examples: Any, found: dict[str, str]) -> None:
    assert {spec.name: str(spec) for spec in find_inputs(module.eval(), examples)} == found


@pytest.mark.parametrize(
    ("examples", "told"),
    [
        ((torch.ones(2, 8), 3), "the example of 'scale' is int, an input is a tensor"),
        ((torch.ones(0, 8),), "the example of 'x' is empty"),
        ((torch.ones(2, 8),) * 3, "3 examples are given, forward takes x, scale"),
        ({"z": torch.ones(2, 8), "x": torch.ones(2, 8)}, "input 'z' is no parameter of forward"),
    ],
)
def test_what_is_no_example_is_refused(examples: Any, told: str) -> None:
    assert told in refusal(UsageError, fx.export, Masked(), examples)


@pytest.mark.slow
def test_the_model_says_what_was_found() -> None:
    model = fx.export(Encoder().eval(), (torch.ones(1, 5, 8), NONE))
    assert [str(value.shape) for value in model.graph.inputs] == ["[batch,seq,8]", "[batch,seq]"]
    assert model.producer_name == "ffn-export"
    assert str(model.doc_string).endswith("Inputs: x:float32[batch,seq,8] padding:bool[batch,seq]{0..1}")


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_a_module_is_exported_in_its_own_dtype(dtype: torch.dtype) -> None:
    module = Masked().to(dtype)
    for inputs in (torch.ones(2, 3, 8, dtype=dtype), {"x": "float32[batch,seq,8]"}):
        (value,) = fx.export(module, inputs).graph.inputs
        assert str(value.dtype) == str(dtype).removeprefix("torch.").upper()


def test_a_spec_takes_no_examples() -> None:
    assert "example tensors are for a module" in refusal(UsageError, fx.export, "d2l-ffn", torch.ones(2, 4))
