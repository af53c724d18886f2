from __future__ import annotations

import dataclasses
from collections import OrderedDict, namedtuple
from typing import Any

import pytest
import torch

from ffn_export.errors import ExportError
from ffn_export.exporter.outputs import check_result, output_names, register_dataclasses, tensors_of
from tests.exporter.helpers import X, exported, module_of, refusal, shapes

A, B, C = torch.zeros(1), torch.zeros(2), torch.zeros(3)
Pair = namedtuple("Pair", ["first", "second"])


@dataclasses.dataclass
class Encoded:
    hidden: torch.Tensor
    pooled: torch.Tensor | None = None


class ModelOutput(OrderedDict[str, Any]):
    """Registered without key paths, as the results of the transformers library are."""


torch.utils._pytree.register_pytree_node(
    ModelOutput, lambda d: (list(d.values()), list(d)), lambda v, keys: ModelOutput(zip(keys, v, strict=True))
)


@pytest.mark.parametrize(
    ("result", "names"),
    [
        (A, ["y"]),
        ((A,), ["y"]),
        ([A], ["y"]),
        ((A, None), ["y"]),
        ((A, B), ["output_0", "output_1"]),
        ((None, A, B), ["output_1", "output_2"]),
        ([A, (B, C)], ["output_0", "output_1_0", "output_1_1"]),
        ({"logits": A}, ["logits"]),
        ({"logits": A, "cache": {"k": B, "v": C}}, ["logits", "cache_k", "cache_v"]),
        ({1: A, 2: B}, ["output_1", "output_2"]),
        (Pair(A, B), ["first", "second"]),
        (Encoded(A, B), ["hidden", "pooled"]),
        (Encoded(A), ["hidden"]),
        (ModelOutput(last=A, states=(B, C)), ["last", "states_0", "states_1"]),
        # A name that an input has already, one that another output has, and both.
        ({"x": A, "z": B}, ["x_out", "z"]),
        ({"a": {"b": A}, "a_b": B}, ["a_b", "a_b_2"]),
        ({"x": A, "x_out": B}, ["x_out", "x_out_2"]),
    ],
)
def test_names_and_order(result: Any, names: list[str]) -> None:
    register_dataclasses(result)
    assert list(output_names(result, ["x"])) == names
    leaves = torch.utils._pytree.tree_leaves(result)
    assert [id(t) for t in tensors_of(result)] == [id(leaf) for leaf in leaves if leaf is not None]


def test_an_input_called_y_renames_the_output() -> None:
    assert output_names(A, ["y"]) == ("y_out",)


@pytest.mark.parametrize(
    ("result", "words"),
    [
        (3, "forward returns int, a graph returns tensors only"),
        ((A, 3), "forward returns int at '1'"),
        ({"y": A, "meta": {"kind": "causal"}}, "forward returns str at 'meta.kind'"),
        (None, "forward returns no tensor"),
        ((), "forward returns no tensor"),
        (torch.zeros(1, dtype=torch.complex64), "return torch.view_as_real"),
    ],
)
def test_what_a_graph_cannot_return(result: Any, words: str) -> None:
    assert words in refusal(ExportError, check_result, result)


def test_a_dataclass_need_not_be_registered_before() -> None:
    @dataclasses.dataclass
    class Local:
        both: torch.Tensor
        inner: Encoded

    module = module_of(lambda self, x: Local(x + 1, Encoded(x.mean(1))))
    model = exported(module, X)
    assert shapes(model.graph.outputs) == {"both": "[batch,seq,4]", "inner_hidden": "[batch,4]"}
