"""Arithmetic in half precision that a module does in float32, where no output shows it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import onnx_ir as ir
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ffn_export.exporter.export import export_source
from ffn_export.exporter.source import Source, from_module
from ffn_export.fusion.pipeline import fuse
from ffn_export.fusion.targets import TARGETS
from ffn_export.parity.cases.case import sweep
from ffn_export.parity.checks.node_arithmetic import NodeArithmetic
from ffn_export.parity.checks.precisions import narrowed
from ffn_export.parity.reference.module_trace import watch
from tests.fusion.graphs import model
from tests.parity.faults.half_modules import Attention, Layer, LayerNorm, RmsNorm, WideOutput

WIDTH = 32


class Of(nn.Module):
    """A function behind a linear."""

    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.linear = nn.Linear(WIDTH, WIDTH)
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.function(self.linear(x))
        return y


class HeadNorm(nn.Module):
    """Queries and keys normed, as in Qwen3, rotated by angles in float32, and PyTorch's attention."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(8))

    def forward(self, x: Tensor) -> Tensor:
        heads = x.reshape(*x.shape[:-1], 4, 8).transpose(1, 2)
        wide = heads.float()
        normed = self.weight * (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)).to(x.dtype)
        powers = 10_000 ** (torch.arange(0, 8, 2).float() / 8)
        angles = torch.arange(x.shape[1])[:, None].float() @ (1 / powers)[None]
        cos, sin = (torch.cat([each, each], -1).to(x.dtype) for each in (angles.cos(), angles.sin()))
        rotated = normed * cos + torch.cat([-normed[..., 4:], normed[..., :4]], -1) * sin
        attended = F.scaled_dot_product_attention(rotated, rotated, heads, is_causal=True)
        merged: Tensor = attended.transpose(1, 2).flatten(2)
        return merged


def feed_forward(activation: Callable[[Tensor], Tensor]) -> nn.Module:
    return nn.Sequential(Of(activation), nn.Linear(WIDTH, WIDTH))


def tanh_gelu(x: Tensor) -> Tensor:
    return 0.5 * x * (1 + torch.tanh(0.7978845608 * (x + 0.044715 * torch.pow(x, 3.0))))


def soft_capped(x: Tensor) -> Tensor:
    return F.softmax(torch.tanh(x / 50) * 50, dim=-1, dtype=torch.float32).to(x.dtype)


def norms_of_both(x: Tensor) -> Tensor:
    """Decompositions of half precision beside the same kinds in float32."""
    half = x.var(-1, keepdim=True) + x.std(-1, keepdim=True) + x.norm(dim=-1, keepdim=True) + x.logsumexp(-1, True)
    wide = x.float().pow(2).mean(-1, keepdim=True).rsqrt() + x.float().abs().exp().log().sin().cumsum(1)
    y: Tensor = half + F.gelu(x, approximate="tanh") + F.elu(x) + torch.expm1(x) + wide.to(x.dtype)
    return y


class Experts(nn.Module):
    """A router in float32, as in Mixtral."""

    def __init__(self) -> None:
        super().__init__()
        self.router, self.experts = nn.Linear(WIDTH, 4, bias=False), nn.Linear(WIDTH, 4 * WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        weights = F.linear(x.float(), self.router.weight.float()).softmax(-1).to(x.dtype)
        y: Tensor = (weights[..., None] * self.experts(x).unflatten(-1, (4, WIDTH))).sum(-2)
        return y


class InBfloat16(nn.Module):
    """A module under autocast."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, x: Tensor) -> Tensor:
        with torch.autocast("cpu", torch.bfloat16):
            y: Tensor = self.module(x)
        return y


def layer(norm: Callable[[], nn.Module], attention: nn.Module, feed_forward: nn.Module) -> nn.Module:
    return Layer(norm(), attention, norm(), feed_forward)


class Plain(nn.Module):
    """``nn.MultiheadAttention`` of one input."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(WIDTH, 4, batch_first=True)

    def forward(self, x: Tensor) -> Any:
        return self.attention(x, x, x, need_weights=False)[0]


RIGHT: dict[str, Callable[[], nn.Module]] = {
    "llama": lambda: layer(RmsNorm, Attention(), feed_forward(F.silu)),
    "gemma": lambda: layer(
        lambda: RmsNorm(1.0), Of(soft_capped), feed_forward(lambda x: F.gelu(x, approximate="tanh"))
    ),
    "t5": lambda: layer(RmsNorm, Attention(), WideOutput()),
    "bert": lambda: layer(lambda: nn.LayerNorm(WIDTH), Plain(), feed_forward(F.gelu)),
    "gpt2": lambda: layer(lambda: nn.LayerNorm(WIDTH), Attention(wide_scores=True), feed_forward(tanh_gelu)),
    "falcon": lambda: layer(lambda: nn.LayerNorm(WIDTH), Attention(), feed_forward(F.gelu)),
    "phi": lambda: layer(lambda: LayerNorm(WIDTH), Attention(wide_scores=True), feed_forward(tanh_gelu)),
    "qwen": lambda: layer(RmsNorm, HeadNorm(), feed_forward(F.silu)),
    "whisper": lambda: nn.TransformerEncoderLayer(WIDTH, 4, 64, batch_first=True, norm_first=True, activation="gelu"),
    "vit": lambda: layer(lambda: nn.LayerNorm(WIDTH), HeadNorm(), feed_forward(lambda x: x * torch.sigmoid(1.702 * x))),
    "torch's rms": lambda: layer(lambda: nn.RMSNorm(WIDTH), Attention(), feed_forward(F.silu)),
    "mixtral": lambda: layer(RmsNorm, Attention(), Experts()),
    "llava": lambda: Layer(nn.LayerNorm(WIDTH), Attention(), RmsNorm(), feed_forward(F.silu)),
    "both": lambda: Of(norms_of_both),
    "sums": lambda: Of(
        lambda x: x - x.cumsum(1, dtype=torch.float32).to(x.dtype) + x.float().sum(-1, True).to(x.dtype)
    ),
}


def exported(module: nn.Module, dtype: str) -> tuple[Source, ir.Model]:
    source = from_module(module.eval().to(getattr(torch, dtype)), {"x": f"{dtype}[2<=batch,2<=seq<=64,{WIDTH}]"})
    return source, export_source(source, 22)  # the first with all operators in bfloat16


def found(of: ir.Model, source: Source) -> tuple[str, ...]:
    return tuple(narrowed(of, watch(source, sweep(source.inputs)[0].feeds(source.inputs))))


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float16", pytest.param("bfloat16", marks=pytest.mark.exhaustive)])
@pytest.mark.parametrize("name", RIGHT)
def test_no_right_graph_of_any_target_is_accused(name: str, dtype: str) -> None:
    source, of = exported(RIGHT[name](), dtype)
    assert found(of, source) == ()
    for target in TARGETS:
        assert found(fuse(of, target)[0], source) == (), target


class Weighted(nn.Module):
    """A sparse matrix times another, which have no addresses in memory."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.other = (nn.Buffer(torch.eye(WIDTH).to_sparse()) for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:
        return x + (self.one * self.other).to_dense().float().pow(2)


def test_products_of_sparse_matrices_and_of_nothing_are_no_squares() -> None:
    source = from_module(Weighted().eval(), {"x": f"float32[1<=rows,{WIDTH}]"})
    feeds = sweep(source.inputs)[0].feeds(source.inputs)
    feeds = {name: array[:1].repeat(WIDTH, 0) for name, array in feeds.items()}
    assert watch(source, feeds).arithmetic["power or root", False] == 1
    empty = from_module(Of(lambda x: x[:0] * x[:0].clone()).eval(), {"x": f"float32[1<=rows,{WIDTH}]"})
    assert watch(empty, feeds).arithmetic["power or root", False] == 0


@pytest.mark.slow
def test_nor_is_one_under_autocast() -> None:
    module = InBfloat16(layer(RmsNorm, Attention(), feed_forward(F.silu))).eval()
    source = from_module(module, {"x": f"float32[2<=batch,2<=seq<=64,{WIDTH}]"})
    assert found(export_source(source), source) == ()


TRANSLATED: dict[str, Callable[[Tensor], Tensor]] = {
    "powers": lambda x: torch.exp2(x) + torch.dist(x, x.flip(-1)) + torch.addcmul(x, x, x),
    "logarithm": lambda x: torch.xlogy(x, x.abs() + 1),
    "sine": torch.sinc,
    "instance norm": F.instance_norm,
    "product as einsum": lambda x: torch.einsum("bsi,bsi->bsi", x, x),
    "sum as einsum": lambda x: x - torch.einsum("bsi->bi", x)[:, None],
    "bilinear": lambda x: F.bilinear(x, x, x.new_ones(WIDTH, WIDTH, WIDTH)),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", TRANSLATED)
def test_operators_that_are_translated_into_others_are_the_module_s(name: str) -> None:
    """Otherwise they are accused beside arithmetic in float32 that a graph holds as constants, or computes once."""
    module = Of(TRANSLATED[name])
    source, of = exported(module, "float16")
    watched = watch(source, sweep(source.inputs)[0].feeds(source.inputs))
    assert all(count <= watched.arithmetic[kind, True] for kind, count in NodeArithmetic.of(of).half.items())


@pytest.mark.slow
def test_an_activation_hides_no_exponential() -> None:
    wide, right = exported(Of(lambda x: F.silu(x) * x.float().exp().to(x.dtype)), "float16")
    _, narrow = exported(Of(lambda x: F.silu(x) * x.exp()), "float16")
    assert found(right, wide) == ()
    (line,) = found(narrow, wide)
    assert line.startswith("exponential: PyTorch computes 1 in float32 and 0 in half precision, the graph 0 and 1")


SCALED = "shape = Shape(x) size = Gather(shape, last) {} width = Cast<to: int = 10>(root) y = Div(x, width)"


def test_a_root_of_a_size_is_none_of_the_module_s() -> None:
    wide = from_module(
        Of(lambda x: x * x.float().abs().sqrt().to(x.dtype)).half().eval(), {"x": f"float16[1<=b,{WIDTH}]"}
    )
    assert found(graph(SCALED.format("narrow = Cast<to: int = 10>(size) root = Sqrt(narrow)")), wide) == ()
    assert len(found(graph("wide = Identity(x) a = Abs(wide) y = Sqrt(a)"), wide)) == 1


def graph(body: str, functions: str = "") -> ir.Model:
    ones = ", ".join(["1"] * WIDTH)
    constants = f"float16[{WIDTH}] scale = {{{ones}}}, float16 two = {{2}}, int64[1] last = {{-1}}"
    rows = f"float16[batch,seq,{WIDTH}]"
    domains = ["own"] if functions else []
    return model(body, constants, inputs=f"{rows} x", outputs=f"{rows} y", functions=functions, domains=domains)


@pytest.fixture(scope="module")
def of_llama() -> Source:
    return from_module(RmsNorm().half().eval(), {"x": f"float16[1<=batch,1<=seq,{WIDTH}]"})


@pytest.mark.parametrize(("stash", "findings"), [("", 0), (", stash_type: int = 1", 0), (", stash_type: int = 10", 1)])
def test_a_norm_computes_where_its_attribute_says(stash: str, findings: int, of_llama: Source) -> None:
    node = f"SimplifiedLayerNormalization <axis: int = -1 {stash}>"
    lines = found(graph(f"y = {node} (x, scale)"), of_llama)
    assert len(lines) == findings
    for line in lines:
        assert line.startswith(
            "power or root: PyTorch computes 2 in float32 and 0 in half precision, the graph 0 and 2"
        )
        assert "(SimplifiedLayerNormalization)" in line


PIECES = """
    {before} squares = Mul(wide, wide) mean = ReduceMean<keepdims: int = 1>(squares, last) root = Sqrt(mean)
    normed = Div(wide, root) {after} y = Mul(half, scale)
"""
IN_FLOAT32 = PIECES.format(before="wide = Cast<to: int = 1>(x)", after="half = Cast<to: int = 10>(normed)")
IN_HALF = PIECES.format(before="wide = Identity(x)", after="half = Identity(normed)")
FUNCTION = """
    <domain: "own", opset_import: ["" : 24]> norm (x, scale) => (y) {{ last = Constant<value_ints: ints = [-1]>() {} }}
"""


def test_dtypes_that_the_file_does_not_state_follow_from_casts(of_llama: Source) -> None:
    assert found(graph(IN_FLOAT32), of_llama) == ()
    powers, means = found(graph(IN_HALF), of_llama)
    assert powers.endswith("(Mul), '' (Sqrt)")
    assert means.endswith("(ReduceMean)")


def test_a_function_is_read_as_its_body(of_llama: Source) -> None:
    assert found(graph("y = own.norm(x, scale)", FUNCTION.format(IN_FLOAT32)), of_llama) == ()
    assert len(found(graph("y = own.norm(x, scale)", FUNCTION.format(IN_HALF)), of_llama)) == 2


def test_a_kernel_of_a_vendor_may_be_either(of_llama: Source) -> None:
    skip = "y = com.microsoft.SkipSimplifiedLayerNormalization(x, x, scale)"
    of = model(
        skip,
        f"float16[{WIDTH}] scale = {{{', '.join(['1'] * WIDTH)}}}",
        inputs=f"float16[2,{WIDTH}] x",
        outputs=f"float16[2,{WIDTH}] y",
        domains=["com.microsoft"],
    )
    assert found(of, of_llama) == ()


def test_what_a_module_computes_in_half_precision_may_be_so() -> None:
    source = from_module(nn.Sequential(RmsNorm(), nn.Softmax(-1)).half().eval(), {"x": f"float16[1<=rows,{WIDTH}]"})
    assert found(export_source(source), source) == ()
    wide = nn.Sequential(RmsNorm(), Of(soft_capped)).half().eval()
    (line,) = found(export_source(source), from_module(wide, {"x": f"float16[1<=rows,{WIDTH}]"}))
    assert line.startswith("softmax: PyTorch computes 1 in float32 and 0 in half precision, the graph 0 and 1: cast to")
