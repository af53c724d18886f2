"""Which open form is the default, by the table of costs."""

from __future__ import annotations

import pytest

from ffn_export.errors import UsageError
from ffn_export.fusion import decisions
from ffn_export.fusion.costs import Costs
from ffn_export.fusion.decisions import PADDED, default_forms, open_names
from ffn_export.fusion.forms import Forms
from ffn_export.fusion.pipeline import fuse
from ffn_export.fusion.targets import get_target
from tests.fusion.graphs import assert_fuses, model, operators

CPU, CUDA = get_target("ort-cpu"), get_target("ort-cuda")
BLOCK = "r = Add(x, s) y = LayerNormalization(r, g)"
ONES = "float[8] g = {1,1,1,1,1,1,1,1}"
INPUTS = "float[batch,seq,8] x, float[batch,seq,8] s"


@pytest.fixture
def table(monkeypatch: pytest.MonkeyPatch) -> dict[str, float]:
    """Put a table of costs in the place of the measured one; it may be changed."""
    numbers = {"Add:residual": 0.1, "LayerNormalization": 0.4, "com.microsoft::SkipLayerNormalization": 4.2}
    made = Costs("1.0.0", "abacus", "CPUExecutionProvider", numbers, is_exact=True)
    monkeypatch.setattr(decisions, "costs", lambda provider: made if provider == made.provider else None)
    return numbers


def test_the_slower_kernel_is_left(table: dict[str, float]) -> None:
    _, report = assert_fuses(model(BLOCK, ONES, inputs=INPUTS), ["Add", "LayerNormalization"], "ort-cpu")
    assert report.sites[1].reason == "faster apart here"
    assert report.sites[1].evidence == (
        "Add and LayerNormalization cost 0.5 ns an element, SkipLayerNormalization 4.2 (onnxruntime 1.0.0, abacus)"
    )


def test_a_table_of_another_machine_says_so(table: dict[str, float], monkeypatch: pytest.MonkeyPatch) -> None:
    made = Costs("1.0.0", "abacus", "CPUExecutionProvider", table, is_exact=False)
    monkeypatch.setattr(decisions, "costs", lambda provider: made)
    evidence = decisions.decisions(CPU)["skip-layer-norm"].evidence
    assert evidence.endswith("(onnxruntime 1.0.0, abacus, the nearest that was measured)")


def test_the_faster_kernel_is_taken(table: dict[str, float]) -> None:
    table["com.microsoft::SkipLayerNormalization"] = 0.4
    assert default_forms(CPU).rules == {"skip-layer-norm"}
    assert_fuses(model(BLOCK, ONES, inputs=INPUTS), ["SkipLayerNormalization"], "ort-cpu")


def test_a_lead_inside_the_noise_is_none(table: dict[str, float]) -> None:
    table["com.microsoft::SkipLayerNormalization"] = 0.47
    assert default_forms(CPU).rules == frozenset()


@pytest.mark.parametrize(("padded", "used"), [(60.0, False), (58.3, False), (58.0, True)])
def test_widths_are_padded_where_that_leads(table: dict[str, float], padded: float, *, used: bool) -> None:
    assert not decisions.decisions(CPU)[PADDED].used
    assert "nobody measured" in decisions.decisions(CPU)[PADDED].reason
    table.update({"MatMul:aliased": 60.0, "MatMul:padded": padded})
    assert (PADDED in default_forms(CPU).rules) is used
    assert decisions.decisions(CPU)[PADDED].evidence == (
        "a product of rows that lie 4096 bytes apart costs 60 ns an element, of padded ones "
        f"{padded:.3g} (onnxruntime 1.0.0, abacus)"
    )
    assert PADDED not in open_names(CUDA)


def test_caches_of_another_processor_say_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = {"MatMul:aliased": 60.0, "MatMul:padded": 50.0}
    other = Costs("1.0.0", "abacus", "CPUExecutionProvider", numbers, is_exact=False, is_same_processor=False)
    monkeypatch.setattr(decisions, "costs", lambda provider: other)
    assert PADDED not in default_forms(CPU).rules


def test_what_reshapes_is_not_chosen_by_kernels_alone(table: dict[str, float]) -> None:
    table.update({"Add": 0.3, "Relu": 0.1, "com.microsoft::FusedGemm:Relu": 0.01})
    assert "fused-gemm" not in default_forms(CPU).rules
    assert "reshaping to rows" in decisions.decisions(CPU)["fused-gemm"].reason


def test_what_nobody_measured_stays_in_nodes_on_a_processor_and_is_one_kernel_on_cuda(table: dict[str, float]) -> None:
    assert "bias-gelu" not in default_forms(CPU).rules
    assert default_forms(CUDA).rules == {"bias-gelu", "fast-gelu", "skip-layer-norm", "skip-rms-norm"}


def test_what_is_asked_for_is_used_whatever_it_costs() -> None:
    of = model(BLOCK, ONES, inputs=INPUTS)
    fused, report = fuse(of, "ort-cpu", forms=Forms(frozenset({"skip-layer-norm"})))
    assert operators(fused) == ["SkipLayerNormalization"]
    assert [site.status for site in report.sites] == ["rewritten", "rewritten"]


def test_what_was_measured_and_not_chosen_says_so(table: dict[str, float]) -> None:
    table["com.microsoft::SkipLayerNormalization"] = 0.1
    report = fuse(model(BLOCK, ONES, inputs=INPUTS), "ort-cpu", forms=Forms())[1]
    assert report.sites[1].reason == "skip-layer-norm was measured here and not chosen"


def test_hidden_layers_are_in_pieces_where_that_was_measured_to_be_faster(table: dict[str, float]) -> None:
    assert default_forms(CPU).pieces == frozenset()
    table |= {"FeedForward:gelu": 80.0, "FeedForward:gelu:pieces": -2.5, "FeedForward:relu": 80.0}
    table |= {"FeedForward:relu:pieces": -2.3, "FeedForward:silu:pieces": -9.0}  # a lead of 3 % is asked for
    assert default_forms(CPU).pieces == {"gelu"}
    assert default_forms(CUDA).pieces == default_forms(get_target("ort")).pieces == frozenset()


def test_what_was_measured_on_another_processor_says_nothing_of_pieces(
    table: dict[str, float], monkeypatch: pytest.MonkeyPatch
) -> None:
    table |= {"FeedForward:gelu": 80.0, "FeedForward:gelu:pieces": -9.0}
    made = Costs("1", "abacus", "CPUExecutionProvider", table, is_exact=True, is_same_processor=False)
    monkeypatch.setattr(decisions, "costs", lambda provider: made)
    assert default_forms(CPU).pieces == frozenset()


@pytest.mark.parametrize("target", ["portable", "ort"])
def test_other_targets_leave_nothing_open(target: str) -> None:
    assert open_names(get_target(target)) == ()
    with pytest.raises(UsageError, match=f"'skip-layer-norm' is no open form of {target}; open are none"):
        fuse(model(BLOCK, ONES, inputs=INPUTS), target, forms=Forms(frozenset({"skip-layer-norm"})))


def test_a_misspelt_form() -> None:
    with pytest.raises(UsageError, match="did you mean 'skip-layer-norm'"):
        fuse(model(BLOCK, ONES, inputs=INPUTS), "ort-cpu", forms=Forms(frozenset({"skip-layernorm"})))


def test_forms_are_plain_data() -> None:
    forms = Forms(frozenset({"b", "a"}), 384, pieces=frozenset({"silu", "gelu"}))
    plain = {"rules": ["a", "b"], "chunk": 384, "long_only": False, "pieces": ["gelu", "silu"]}
    assert forms.to_dict() == plain
    assert Forms.from_dict(plain) == forms
    del plain["pieces"]  # as before there were any
    assert Forms.from_dict(plain) == Forms(frozenset({"b", "a"}), 384)
