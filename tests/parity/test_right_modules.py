"""Modules as people write them, against themselves and against one that computes something else."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import ffn_export as fx
from ffn_export.parity.judging.result import ParityResult

ROWS = {"x": "float32[batch>=1,seq>=1,16]"}


class Of(nn.Module):
    """Layers of one seed, and what is computed with them."""

    def __init__(self, forward: Callable[..., Tensor | tuple[Tensor, ...]], **layers: nn.Module) -> None:
        super().__init__()
        self._forward = forward
        for name, layer in layers.items():
            self.add_module(name, layer)


class OfRows(Of):
    def forward(self, x: Tensor) -> Any:
        return self._forward(self, x)


class OfLengths(Of):
    def forward(self, x: Tensor, lengths: Tensor) -> Any:
        return self._forward(self, x, lengths)


class OfIds(Of):
    def forward(self, ids: Tensor) -> Any:
        return self._forward(self, ids)


def made(kind: type[Of], forward: Callable[..., Tensor | tuple[Tensor, ...]]) -> Of:
    torch.manual_seed(0)
    layers = {
        "linear": nn.Linear(16, 16),
        "router": nn.Linear(16, 8, bias=False),
        "experts": nn.Linear(16, 8 * 16),
        "table": nn.Embedding(50, 16),
        "lstm": nn.LSTM(16, 8, batch_first=True),
    }
    return kind(forward, **layers).eval()


def verified(module: Of, inputs: Mapping[str, str], exported: Of | None = None) -> ParityResult:
    return fx.verify(fx.export(exported or module, inputs), against=module, inputs=inputs, runtimes=["ort-cpu"])


def counts(result: ParityResult) -> dict[str, int]:
    found = [case.status(result.tolerances) for case in result.cases]
    return {status: found.count(status) for status in dict.fromkeys(found)}


def before_and_now(self: Any, x: Tensor, shift: int = 0) -> Any:
    weights = torch.tril(torch.ones(x.shape[1], x.shape[1]), shift)
    return torch.einsum("ts,bsd->btd", weights, self.linear(x)) * torch.tensor([0.1])


def sums_of_two(self: Any, x: Tensor) -> Any:
    total = torch.zeros(x.shape[0], 16)
    return total.index_add(0, torch.arange(x.shape[0]), self.linear(x).sum(1))


def two_experts(self: Any, x: Tensor) -> Any:
    scores, chosen = self.router(x).softmax(-1).topk(2, dim=-1)
    experts = self.experts(x).unflatten(-1, (8, 16))
    taken = experts.gather(-2, chosen[..., None].expand(*chosen.shape, 16))
    return (scores[..., None] * taken).sum(-2)


def three_largest(self: Any, x: Tensor) -> tuple[Tensor, Tensor]:
    values, indices = self.linear(x).topk(3, dim=-1)
    return values, indices


def mean_of_first(self: Any, x: Tensor, lengths: Tensor) -> Any:
    is_there = torch.arange(x.shape[1])[None] < lengths[:, None]
    return (self.linear(x) * is_there[..., None]).sum(1)


def mean_of_one(self: Any, x: Tensor, lengths: Tensor) -> Any:
    return mean_of_first(self, x, lengths.clamp(max=1))


def logits(self: Any, ids: Tensor, factor: float = 1.0) -> Any:
    scores = factor * self.router(self.table(ids))
    return scores.masked_fill(torch.arange(8) >= 6, -1e9)


def no_logits(self: Any, ids: Tensor) -> Any:
    return logits(self, ids, 1.01)


def padding_counts(self: Any, ids: Tensor) -> Any:
    return self.table(ids) * (ids != 1)[..., None]


def padding_ignored(self: Any, ids: Tensor) -> Any:
    return self.table(ids)


@pytest.mark.slow
@pytest.mark.parametrize("forward", [before_and_now, sums_of_two, two_experts, three_largest])
def test_right_modules_pass_on_every_case(forward: Callable[..., Tensor]) -> None:
    """Tensors made in the default dtype, ties among experts, and indices of NaN."""
    result = verified(made(OfRows, forward), ROWS)
    assert result.failures == ()
    assert counts(result) == {"passed": len(result.cases)}


@pytest.mark.slow
def test_kernels_that_pass_nan_over_are_warned_of() -> None:
    for forward in (lambda self, x: self.lstm(x)[0], lambda self, x: self.linear(x.amax(1))):
        result = verified(made(OfRows, forward), {"x": "float32[batch>=1,5,16]"})
        assert result.failures == ()
        assert {"nan", "nan in parts"} == {
            case.values for case in result.cases if case.status(result.tolerances) == "warned"
        }
        assert all("gives a number for NaN" in warning for warning in result.warnings)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("forward", "kernel"),
    [
        (before_and_now, "Einsum"),
        (lambda self, x: F.group_norm(x.transpose(1, 2), 4).transpose(1, 2), "InstanceNormalization"),
    ],
)
def test_a_kernel_that_ends_the_process_is_not_run_on_nothing(forward: Callable[..., Tensor], kernel: str) -> None:
    """It divides by the sizes, or reads past the end."""
    result = verified(made(OfRows, forward), {"x": "float32[batch,seq,16]"})
    skipped = {case.case: case.skipped for case in result.cases if case.skipped is not None}
    assert result.failures == ()
    assert set(skipped) == {"batch=0,seq=5 normal", "batch=3,seq=0 normal"}
    assert all(f"{kernel} may end the whole process on an empty input" in str(reason) for reason in skipped.values())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "right", "wrong", "inputs"),
    [
        (OfRows, before_and_now, lambda self, x: before_and_now(self, x, shift=1), ROWS),
        (OfLengths, mean_of_first, mean_of_one, {**ROWS, "lengths": "int64[batch>=1]"}),
        (OfIds, logits, no_logits, {"ids": "int64[batch>=1,seq>=1]"}),
        (OfIds, padding_counts, padding_ignored, {"ids": "int64[batch>=1,seq>=1]"}),
    ],
    ids=["sees the next token", "lengths above 1", "beside forbidden tokens", "padding"],
)
def test_faults_that_need_the_right_inputs_or_scale(
    kind: type[Of],
    right: Callable[..., Tensor],
    wrong: Callable[..., Tensor],
    inputs: Mapping[str, str],
) -> None:
    assert verified(made(kind, right), inputs).passed
    assert not verified(made(kind, right), inputs, made(kind, wrong)).passed


@pytest.mark.slow
def test_a_module_that_refuses_most_sizes_is_warned_of() -> None:
    def at_one_size(self: Any, x: Tensor) -> Any:
        if not torch.compiler.is_compiling() and x.shape[1] not in (1, 3):
            raise ValueError("one token at a time, or three")
        y: Tensor = self.linear(x)
        return y

    result = verified(made(OfRows, at_one_size), ROWS)
    assert result.passed
    assert any("cases were not compared" in line and "one token at a time" in line for line in result.warnings)


def test_what_is_beyond_the_dtype_widens_no_bound() -> None:
    """The oracle holds 1e60, and one rounding of the inputs moves that by more than the other outputs are large."""

    def beyond(factor: float) -> Of:
        return made(OfRows, lambda self, x: torch.cat([self.linear(x * factor), x[..., :1] * 1e30 * 1e30], -1))

    assert verified(beyond(1), ROWS).passed
    result = verified(beyond(1), ROWS, beyond(1.001))
    failed = {case.values for case in result.cases if case.status(result.tolerances) == "failed"}
    assert failed >= {"normal", "outliers", "offset"}


CANCELLING: Mapping[str, Callable[[Tensor], Tensor]] = {
    "elu": F.elu,
    "selu": F.selu,
    "celu": F.celu,
    "expm1": lambda x: torch.expm1(-x.abs()),
    "log1p": lambda x: torch.log1p(x.abs()),
    "erfc": lambda x: torch.special.erfc(x.abs()),
}


@pytest.mark.parametrize("function", CANCELLING.values(), ids=CANCELLING.keys())
def test_a_graph_may_subtract_where_the_module_does_not(function: Callable[[Tensor], Tensor]) -> None:
    """The function is multiplied by its input, as a gate is: the result is as small as its lost digits."""
    right = made(OfRows, lambda self, x: self.router(function(x) * x))
    result = verified(right, ROWS)
    assert result.failures == ()
    ordinary = [output for case in result.cases if case.values == "normal" for output in case.outputs]
    assert max(output.conditioning_ulps for output in ordinary) < 4
    wrong = made(OfRows, lambda self, x: self.router(function(x * 1.0001) * x))
    assert not verified(right, ROWS, wrong).passed


COARSE: Mapping[str, Callable[[Tensor], Tensor]] = {
    "probabilities": lambda x: torch.sigmoid(x - 9),
    "in place": lambda x: (x - 9).sigmoid_(),
    "silu": lambda x: F.silu(x - 9),
    "silu in place": lambda x: F.silu(x - 9, inplace=True),
    "glu": lambda x: F.glu(x - 9),
    "tanhshrink": lambda x: F.tanhshrink(x / 32),
    "tanh in place": lambda x: x / 32 - (x / 32).tanh_(),
}


@pytest.mark.parametrize("function", COARSE.values(), ids=COARSE.keys())
def test_small_results_may_be_as_coarse_as_the_kernels(function: Callable[[Tensor], Tensor]) -> None:
    """As in the head of a detector or of a click model: far below the accuracy of ONNX Runtime's Sigmoid and Tanh."""
    assert verified(made(OfRows, lambda self, x: function(self.linear(x))), ROWS).failures == ()
    wrong = made(OfRows, lambda self, x: function(self.linear(x) * 1.001))
    assert not verified(made(OfRows, lambda self, x: function(self.linear(x))), ROWS, wrong).passed


FOURIER: Mapping[str, Callable[[Tensor], Tensor]] = {
    "as FNet mixes": lambda x: torch.fft.fftn(x, dim=(1, 2)).real,
    "of real numbers": lambda x: torch.fft.rfft(x).imag,
    "and back": lambda x: torch.fft.ifft(x, norm="ortho").real,
}


@pytest.mark.parametrize("function", FOURIER.values(), ids=FOURIER.keys())
def test_a_fourier_transform_may_be_as_coarse_as_the_kernel(function: Callable[[Tensor], Tensor]) -> None:
    """Of a size that is no power of two, where ONNX Runtime loses digits."""

    def transformed(factor: float) -> Of:
        return made(OfRows, lambda self, x: function(x.repeat(1, 1, 6) * factor))

    assert verified(transformed(1), ROWS).failures == ()
    assert not verified(transformed(1), ROWS, transformed(1.001)).passed


def score(self: Any, x: Tensor, scale: float = 1.0) -> Any:
    return torch.cosine_similarity(self.linear(x).mean(1), scale + self.router.weight[0], dim=-1)


@pytest.mark.slow
def test_a_score_of_few_numbers_is_judged_at_every_size() -> None:
    assert verified(made(OfRows, score), ROWS).failures == ()
    wrong = made(OfRows, lambda self, x: score(self, x, 1.0001))
    result = verified(made(OfRows, score), ROWS, wrong)
    assert {case.sizes["batch"] for case in result.cases if case.failure(result.tolerances)} >= {1, 3}


def test_a_number_beside_the_tensors_may_be_an_input() -> None:
    """Inputs without axes: NumPy makes a number of their product, and no runtime takes that."""
    inputs = {"x": "float32[batch>=1,seq>=1,16]", "lengths": "float32[]{-2..2}"}
    right = made(OfLengths, lambda self, x, lengths: self.linear(x) * lengths)
    assert verified(right, inputs).failures == ()
    assert verified(right, inputs | {"lengths": "float32[]"}).failures == ()
    wrong = made(OfLengths, lambda self, x, lengths: self.linear(x) * lengths.abs())
    assert not verified(right, inputs, wrong).passed


def test_a_query_with_nan_sees_nan_under_a_mask() -> None:
    """Torch's translation makes 0 of the weights of a query with NaN, as of those of a query that sees no key."""

    def attend(self: Any, x: Tensor, lengths: Tensor) -> Tensor:
        keys = self.table.weight[:8].expand(x.shape[0], 1, 8, 16)
        seen = torch.arange(8) < lengths[:, None]
        return F.scaled_dot_product_attention(self.linear(x)[:, None], keys, keys, attn_mask=seen[:, None, None])

    inputs = ROWS | {"lengths": "int64[batch>=1]{0..8}"}
    right = made(OfLengths, attend)
    assert verified(right, inputs).failures == ()
    lost = made(OfLengths, lambda self, x, lengths: attend(self, x, lengths).nan_to_num())
    assert not verified(right, inputs, lost).passed


def test_a_deviation_over_tokens_divides_by_their_number() -> None:
    """Its graph has the product of a single size."""
    right = made(OfRows, lambda self, x: self.linear(torch.cat([x.mean(1), x.std(1)], -1)[:, 8:24]))
    inputs = {"x": "float32[batch>=1,seq>=2,16]"}
    assert verified(right, inputs).failures == ()
    wrong = made(OfRows, lambda self, x: self.linear(torch.cat([x.mean(1), x.std(1, correction=0)], -1)[:, 8:24]))
    assert not verified(right, inputs, wrong).passed


def test_two_axes_of_an_input_may_have_one_symbol() -> None:
    right = made(OfRows, lambda self, x: x.tril(-1).sum(-1))
    inputs = {"x": "float32[batch>=1,seq>=1,seq>=1]"}
    assert verified(right, inputs).failures == ()
    assert not verified(right, inputs, made(OfRows, lambda self, x: x.tril().sum(-1))).passed


@pytest.mark.integration  # PyTorch compiles a branch before it runs it
def test_a_branch_on_a_number() -> None:
    def branched(bound: float) -> Of:
        def forward(self: Any, x: Tensor) -> Any:
            return torch.cond(x.sum() > bound, lambda t: F.relu(self.linear(t)), lambda t: self.linear(t) * 0.5, (x,))

        return made(OfRows, forward)

    inputs = {"x": "float32[batch>=1,16]"}
    assert verified(branched(0), inputs).failures == ()
    assert not verified(branched(0), inputs, branched(2)).passed


SELECTING: Mapping[str, Callable[[Tensor], Tensor]] = {
    "pooling": lambda x: F.max_pool1d(x, 2, 1),
    "scatter": lambda x: torch.zeros_like(x).scatter_reduce(-1, torch.arange(16).expand(x.shape) // 2, x, "amax"),
    "shrink": F.hardshrink,
    "threshold": lambda x: F.threshold(x, 1.0, 0.0),
}


@pytest.mark.parametrize("function", SELECTING.values(), ids=SELECTING.keys())
def test_what_passes_over_nan_is_warned_of(function: Callable[[Tensor], Tensor]) -> None:
    right = made(OfRows, lambda self, x: function(x))
    assert verified(right, ROWS).failures == ()
    assert not verified(right, ROWS, made(OfRows, lambda self, x: function(x * 1.001))).passed


def test_tokens_that_are_sorted_by_nan_are_warned_of() -> None:
    right = made(OfRows, lambda self, x: self.linear(x).sort(1)[0])
    result = verified(right, ROWS)
    assert (result.failures, any("sorts NaN" in str(each) for each in result.warnings)) == ((), True)
    assert not verified(right, ROWS, made(OfRows, lambda self, x: self.linear(x).sort(1, descending=True)[0])).passed


@pytest.mark.slow
def test_a_long_sum_over_tokens_may_be_added_in_order() -> None:
    """With signs that cancel, rows in order are off by more than PyTorch allows a short sum."""
    inputs = {"x": "float32[1<=batch<=2,1<=seq<=4096,16]"}
    right = made(OfRows, lambda self, x: self.linear(x + 1).mean(1))
    result = verified(right, inputs)
    assert result.failures == ()
    assert any(each.conditioning_ulps > 4 for case in result.cases for each in case.outputs)
    assert not verified(right, inputs, made(OfRows, lambda self, x: self.linear(x + 1.00002).mean(1))).passed


FOLDED: Mapping[str, Callable[[Any, Tensor], Tensor]] = {
    "softmax": lambda self, x: x @ self.linear.weight.softmax(0),
    "over a deviation": lambda self, x: x @ (self.linear.weight / (self.linear.weight.std(0) + 1)),
    "normalised": lambda self, x: F.linear(x, F.normalize(self.router.weight)),
    "parametrised": lambda self, x: self.linear(x),
}


@pytest.mark.parametrize("how", FOLDED)
def test_weights_in_half_precision_may_be_folded_with_other_roundings(how: str) -> None:
    inputs = {"x": "float16[batch>=1,seq>=1,16]"}

    def half() -> Any:
        module: Any = made(OfRows, FOLDED[how])
        if how == "parametrised":
            torch.nn.utils.parametrizations.weight_norm(module.linear)
        return module

    right = half()
    model = fx.export(right, inputs, dtype="float16")
    result = fx.verify(model, against=right, inputs=inputs, runtimes=["ort-cpu"], dtype="float16")
    assert result.failures == ()
    stored = next(value for value in model.graph.initializers.values() if len(value.shape or ()) == 2)
    assert stored.const_value is not None
    numbers = stored.const_value.numpy().copy()
    numbers[np.unravel_index(np.abs(numbers).argmax(), numbers.shape)] *= np.float16(1.01)
    stored.const_value = ir.tensor(numbers, name=stored.name)
    wrong = fx.verify(model, against=right, inputs=inputs, runtimes=["ort-cpu"], dtype="float16")
    assert any("1 elements differ" in str(each) for each in wrong.failures)
