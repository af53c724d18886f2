"""Which optional form is the default, by the table of costs, and which are in use."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import onnx_ir as ir
import pytest

from ffn_export.errors import UsageError
from ffn_export.fusion.costs import Table, costs, read_tables
from ffn_export.fusion.forms import choice
from ffn_export.fusion.forms.choice import default_forms
from ffn_export.fusion.pipeline import fuse
from ffn_export.fusion.targets import SLOWER, get_target
from tests.fusion.graphs import assert_fuses, cast, model, operators

CPU, CUDA = get_target("ort-cpu"), get_target("ort-cuda")
SPLIT, PADDED = "split-hidden-layers", "padded-widths"
BLOCK = "r = Add(x, s) y = LayerNormalization(r, g)"
ONES = "float[8] g = {1,1,1,1,1,1,1,1}"
INPUTS = "float[batch,seq,8] x, float[batch,seq,8] s"

Measured = Callable[..., None]


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> Measured:
    """Put a table of costs in the place of the measured one."""

    def put(numbers: Mapping[str, float] | None) -> None:
        made = Table("1.0.0", "abacus", "Babbage", "1", "", "float32", 1, "", numbers or {})
        monkeypatch.setattr(choice, "costs", lambda: None if numbers is None else made)

    put(None)
    return put


@pytest.mark.parametrize(("padded", "used"), [(60.0, False), (58.3, False), (58.0, True)])
def test_widths_are_padded_if_that_leads(measured: Measured, padded: float, *, used: bool) -> None:
    assert PADDED not in default_forms(CPU)
    measured({"MatMul:aliased": 60.0, "MatMul:padded": padded})
    assert (PADDED in default_forms(CPU)) is used


@pytest.mark.parametrize(("more", "used"), [(2.0, False), (-2.2, False), (-2.6, True)])
def test_hidden_layers_are_split_if_that_leads_on_average(measured: Measured, more: float, *, used: bool) -> None:
    assert SPLIT not in default_forms(CPU)
    lone = {"FeedForward:silu:split": -9.0}  # nothing to compare with
    relu = {"FeedForward:relu": 80.0, "FeedForward:relu:split": -2.4}
    measured({"FeedForward:gelu": 80.0, "FeedForward:gelu:split": more} | relu | lone)
    assert (SPLIT in default_forms(CPU)) is used


def test_a_processor_that_was_not_measured_has_plain_forms(measured: Measured) -> None:
    assert default_forms(CPU) == {"attention", "rotary"}  # no slower anywhere


def test_cuda_has_one_kernel_for_several_nodes(measured: Measured) -> None:
    assert default_forms(CUDA) == {"bias-gelu", "fast-gelu", "skip-layer-norm-in-half", "skip-rms-norm"}


def test_named_forms_are_used_and_the_others_say_so(measured: Measured) -> None:
    of = cast(model(BLOCK, ONES, inputs=INPUTS), ir.DataType.FLOAT16)
    fused, report = fuse(of, "ort-cuda", forms={"skip-layer-norm-in-half"})
    assert operators(fused) == ["SkipLayerNormalization"]
    assert [site.status for site in report.sites] == ["rewritten", "rewritten"]
    fused, report = fuse(of, "ort-cuda", forms=())
    assert report.sites[1].reason == "skip-layer-norm-in-half was not chosen"


@pytest.mark.parametrize("target", ["portable", "ort"])
def test_other_targets_offer_nothing(target: str) -> None:
    with pytest.raises(UsageError, match=f"'skip-layer-norm' is no optional form of {target}; it offers none"):
        fuse(model(BLOCK, ONES, inputs=INPUTS), target, forms={"skip-layer-norm"})


def test_a_misspelt_form() -> None:
    with pytest.raises(UsageError, match="did you mean 'skip-rms-norm'"):
        fuse(model(BLOCK, ONES, inputs=INPUTS), "ort-cuda", forms={"skip-rmsnorm"})


def test_on_a_processor_the_sum_and_the_norm_stay_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    measured = partial(costs, key=("avx512", "GenuineIntel", "6"))
    monkeypatch.setattr("ffn_export.fusion.site_report.costs", measured)
    _, report = assert_fuses(model(BLOCK, ONES, inputs=INPUTS), ["Add", "LayerNormalization"], "ort-cpu")
    assert report.sites[1].reason == SLOWER
    assert report.sites[1].evidence == (
        "Add and LayerNormalization cost 0.65 ns an element, SkipLayerNormalization 4.5 "
        "(onnxruntime 1.31.1, avx512, GenuineIntel family 6)"
    )


# Kernel of ONNX Runtime -> the operators that it replaces, and its width over that of the hidden layer.
KERNELS = {
    "com.microsoft::BiasGelu": ("Add", "Gelu"),
    "com.microsoft::FastGelu:bias": ("Add", "Gelu:tanh"),
    "com.microsoft::FusedGemm:Relu": ("Add", "Relu"),
    "Gemm": ("Add",),
    "com.microsoft::SkipLayerNormalization": ("Add:residual", "LayerNormalization"),
    "com.microsoft::SkipSimplifiedLayerNormalization": ("Add:residual", "RMSNormalization"),
}


@pytest.mark.parametrize("kernel", KERNELS)
def test_no_kernel_that_a_processor_is_not_offered_gains_three_percent(kernel: str) -> None:
    """A table that says otherwise asks for an optional form of ``ort-cpu``: docs/decisions/0031."""
    for table in read_tables():
        known = table.ns_per_element
        saved = sum(known[each] for each in KERNELS[kernel]) - known[kernel]
        products = 2 * known["MatMul:aliased"] * 768  # of one row, 768 to 3072 and back
        assert saved * 3072 < 0.03 * products, table.words
