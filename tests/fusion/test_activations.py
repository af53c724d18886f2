"""Every activation of the reference modules, in every form of feed-forward, becomes its shortest form."""

from __future__ import annotations

import functools
from collections.abc import Collection

import onnx_ir as ir
import pytest
from torch import Tensor, nn

from ffn_export.exporter.export import export_source
from ffn_export.exporter.source import from_module
from ffn_export.fusion.pipeline import fuse
from ffn_export.fusion.targets import TARGETS
from ffn_export.modules import ACTIVATIONS, ConvFeedForward, FeedForward, GatedFeedForward
from tests.fusion.graphs import assert_interface_kept, assert_same_function, operators

SHORTEST = {
    "relu": "Relu",
    "gelu": "Gelu",
    "gelu_tanh": "Gelu",
    "quick_gelu": "Swish",
    "silu": "Swish",
    "relu2": "Relu Pow",
    "tanh": "Tanh",
    "elu": "Elu",
    "mish": "Mish",
    "hardswish": "HardSwish",
    "leaky_relu": "LeakyRelu",
}

# Form -> as written for inputs of rank 2, where a linear layer is one Gemm, and of rank 3.
FORMS = {
    "plain": ("Gemm {} Gemm", "MatMul Add {} MatMul Add"),
    "plain, no biases": ("Gemm {} Gemm", "MatMul {} MatMul"),
    "gated": ("Gemm Gemm {} Mul Gemm", "MatMul MatMul {} Mul MatMul"),
    "gated, biases": ("Gemm Gemm {} Mul Gemm", "MatMul Add MatMul Add {} Mul MatMul Add"),
    "packed": ("Gemm Split {} Mul Gemm", "MatMul Split {} Mul MatMul"),
    "convolutions": ("", "MatMul Add {} MatMul Add"),
}


ROWS = "Reshape FusedGemm Shape Concat Reshape"
GEMM = "Reshape Gemm Shape Concat Reshape"
# The activations that onnxruntime's FusedGemm knows, and what stands after it.
FUSED_GEMM = {"relu": "", "relu2": " Pow", "tanh": "", "elu": "", "leaky_relu": ""}
FUSED_GEMM_FORMS = {
    "plain": ("FusedGemm{} Gemm", ROWS + "{} MatMul Add"),
    "plain, no biases": ("FusedGemm{} Gemm", ROWS + "{} MatMul"),
    "gated": ("Gemm FusedGemm{} Mul Gemm", f"MatMul {ROWS}{{}} Mul MatMul"),
    "gated, biases": ("Gemm FusedGemm{} Mul Gemm", f"{GEMM} {ROWS}{{}} Mul MatMul Add"),
    "convolutions": ("", ROWS + "{} MatMul Add"),
}
BIAS_GELU_FORMS = {
    "plain": "MatMul {} MatMul Add",
    "gated, biases": "MatMul MatMul Add {} Mul MatMul Add",
    "convolutions": "MatMul {} MatMul Add",
}

# Those without a kernel that takes the bias get it from a Gemm.
GEMM_FORMS = {
    "plain": GEMM + " {} MatMul Add",
    "gated, biases": f"{GEMM} {GEMM} {{}} Mul MatMul Add",
    "convolutions": GEMM + " {} MatMul Add",
}


EVERY = tuple(ACTIVATIONS)
# One for each way in which a target writes it: in FusedGemm, with a node behind it, in BiasGelu, as Swish, after Gemm.
KINDS = ("relu", "relu2", "gelu", "silu", "mish")
# What is written at rank 2 with these kinds alone: at rank 3 each form has every activation, at rank 2 the others have.
ALIKE = ("plain, no biases", "gated, biases", "packed")

# Targets whose graphs show the operators of a feed-forward.
APART = [name for name, target in TARGETS.items() if not target.outlines]


def written(form: str, rank: int, activation: str, target: str) -> str:
    """The operators that a target writes for one feed-forward."""
    if target == "ort" and activation in FUSED_GEMM and form in FUSED_GEMM_FORMS:
        return FUSED_GEMM_FORMS[form][rank - 2].format(FUSED_GEMM[activation])
    if target in ("ort", "ort-cuda") and rank == 3 and SHORTEST[activation] == "Gelu" and form in BIAS_GELU_FORMS:
        in_one = BIAS_GELU_FORMS[form].format("BiasGelu" if activation == "gelu" else "FastGelu")
        return in_one.replace("MatMul MatMul Add", f"MatMul {GEMM}") if target == "ort" else in_one
    swish = SHORTEST[activation] == "Swish" and target != "portable"
    shortest = "QuickGelu" if swish else SHORTEST[activation]
    if target == "ort" and rank == 3 and form in GEMM_FORMS:
        return GEMM_FORMS[form].format(shortest)
    return FORMS[form][rank - 2].format(shortest)


def why_kept(form: str, activation: str, target: str) -> str | None:
    """This target allows one node between the products, two in a gated feed-forward."""
    is_gated = form.startswith("gated") or form == "packed"
    nodes = SHORTEST[activation].split()
    if activation in FUSED_GEMM and form in FUSED_GEMM_FORMS:
        nodes = FUSED_GEMM[activation].split()
    nodes += ["Mul"] * is_gated
    if target != "ort" or len(nodes) <= 1 + is_gated:
        return None
    return f"{len(nodes)} nodes compute between its two products: {' '.join(nodes)}"


def make(form: str, activation: str) -> nn.Module:
    if form == "convolutions":
        return ConvFeedForward(16, 32, activation)
    if form.startswith("plain"):
        return FeedForward(16, 32, activation, bias=form == "plain")
    return GatedFeedForward(16, 32, activation, bias=form == "gated, biases", packed=form == "packed")


class SideBySide(nn.Module):
    """One feed-forward for each activation, on the same input: an export of all costs little more than of one."""

    def __init__(self, form: str, names: Collection[str]) -> None:
        super().__init__()
        self.names = list(names)
        self.branches = nn.ModuleList(make(form, name) for name in self.names)

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        return tuple(branch(x) for branch in self.branches)


@functools.cache
def exported(form: str, rank: int, opset: int, activations: tuple[str, ...]) -> tuple[ir.Model, list[str]]:
    module = SideBySide(form, activations).eval()
    spec = "float32[tokens,16]" if rank == 2 else "float32[batch,seq,16]"
    return export_source(from_module(module, {"x": spec}), opset), module.names


def test_the_table_is_complete() -> None:
    assert set(SHORTEST) == set(ACTIVATIONS)


def check(form: str, rank: int, opset: int, target: str, activations: tuple[str, ...] = EVERY) -> None:
    model, names = exported(form, rank, opset, activations)
    fused, report = fuse(model, target)
    expected = [written(form, rank, name, target) for name in names]
    assert " ".join(operators(fused)) == " ".join(expected)
    assert [site.activation for site in report.sites] == names
    for site, name in zip(report.sites, names, strict=True):
        kept = why_kept(form, name, target)
        assert (site.kind, site.d_model, site.d_ff) == ("feed_forward", 16, 32)
        reason = str(site.reason).partition(",")[0] if kept else None
        assert ("kept" if site.status == "kept" else None, reason) == ("kept" if kept else None, kept)
        assert site.gated is (form.startswith("gated") or form == "packed")
    assert_interface_kept(model, fused)
    assert_same_function(model, fused)


@pytest.mark.slow
@pytest.mark.parametrize("target", APART)
@pytest.mark.parametrize(
    ("form", "activations"),
    [
        *(pytest.param(form, KINDS, id=f"{form}, kinds") for form in ALIKE),
        *(
            pytest.param(form, EVERY, id=form, marks=[pytest.mark.exhaustive] if form in ALIKE else [])
            for form, (rank_2, _) in FORMS.items()
            if rank_2
        ),
    ],
)
def test_rank_2(form: str, activations: tuple[str, ...], target: str) -> None:
    check(form, 2, 20, target, activations)


@pytest.mark.slow
@pytest.mark.parametrize("target", APART)
@pytest.mark.parametrize("form", FORMS)
def test_rank_3(form: str, target: str) -> None:
    check(form, 3, 20, target)


@pytest.mark.slow
@pytest.mark.parametrize("target", APART)
@pytest.mark.parametrize("opset", [18, pytest.param(22, marks=pytest.mark.exhaustive), 24])
def test_every_opset(opset: int, target: str) -> None:
    check("plain", 3, opset, target)


@pytest.mark.slow
def test_highest_opset_that_torch_exports() -> None:
    check("plain", 3, 25, "ort-cpu")
    model, names = exported("plain", 3, 25, EVERY)
    fused, report = fuse(model, "portable")
    pieces = SHORTEST | {"silu": "Sigmoid Mul", "quick_gelu": "Mul Sigmoid Mul"}  # onnxruntime runs no Swish there
    assert " ".join(operators(fused)) == " ".join(f"MatMul Add {pieces[name]} MatMul Add" for name in names)
    assert {site.activation for site in report.sites if site.status == "refused"} == {"silu", "quick_gelu"}
    assert_same_function(model, fused)
