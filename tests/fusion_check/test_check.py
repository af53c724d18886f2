"""A rule that writes another function is found out where it did so, and only that is undone."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest

import ffn_export as fx
from ffn_export.core import onnx_file
from ffn_export.fusion import no_ops, pipeline
from ffn_export.fusion.report import FusionReport
from ffn_export.fusion.rule import Rule
from ffn_export.fusion_check import check as checking
from ffn_export.fusion_check.check import fuse_checked
from ffn_export.fusion_check.limits import Limits
from tests.fusion.graphs import assert_same_function, model, operators
from tests.fusion_check.planted import Raising, TanhForErf, Unloadable, WrongEpsilon

Plant = Callable[..., None]

DRAW = np.random.default_rng(3)


def floats(*shape: int) -> str:
    numbers = ",".join(f"{n:.4f}" for n in DRAW.standard_normal(shape).reshape(-1))
    return f"float[{','.join(map(str, shape))}] {{}} = {{{{{numbers}}}}}"


WEIGHTS = ", ".join(
    [
        *(f"{floats(8, 16).format(f'u{k}')}, {floats(16, 8).format(f'd{k}')}" for k in range(3)),
        f"{floats(8).format('scale')}, float one = {{1}}, float half = {{0.5}}, float root = {{1.41421356}}",
        "float two = {2}, float epsilon = {1e-5}, int64[1] axis = {-1}",
    ]
)


def layer(k: int, x: str, y: str) -> str:
    """A norm and a feed-forward with its residual."""
    return f"""
        p{k} = Pow({x}, two) m{k} = ReduceMean(p{k}, axis) e{k} = Add(m{k}, epsilon) r{k} = Sqrt(e{k})
        c{k} = Div({x}, r{k}) n{k} = Mul(c{k}, scale)
        h{k} = MatMul(n{k}, u{k}) q{k} = Div(h{k}, root) s{k} = Erf(q{k}) t{k} = Add(s{k}, one)
        v{k} = Mul(h{k}, t{k}) g{k} = Mul(v{k}, half) o{k} = MatMul(g{k}, d{k}) {y} = Add(o{k}, {x})
    """


def three(**options: Any) -> ir.Model:
    return model(layer(0, "x", "x1") + layer(1, "x1", "x2") + layer(2, "x2", "y"), WEIGHTS, opset=23, **options)


def statuses(report: FusionReport, kind: str) -> list[str]:
    return [site.status for site in report.sites if site.kind == kind]


@pytest.mark.parametrize("target", ["portable", "ort", "ort-cpu"])
def test_what_is_right_passes(target: str) -> None:
    of = three()
    before = ir.to_proto(of).SerializeToString()
    fused, report = fx.fuse(of, target=target)
    assert (report.check.status, report.check.reason) == ("passed", None)
    assert report.check.worst is not None
    assert report.check.tolerance is not None
    assert report.check.worst < report.check.tolerance / 10
    assert report.check.runtime == "ort-cpu"
    assert {"batch": 1, "seq": 1} in report.check.sizes
    assert len(report.check.sizes) >= 3
    assert statuses(report, "feed_forward") == ["rewritten"] * 3
    assert ir.to_proto(of).SerializeToString() == before
    assert_same_function(of, fused)


def test_small_weights_that_lie_in_another_file_are_found(tmp_path: Path) -> None:
    """PyTorch's exporter puts a bias of a kilobyte there."""
    path = tmp_path / "model.onnx"
    ir.save(three(), path, external_data="model.data", size_threshold_bytes=0)
    of = onnx_file.load(path)
    assert any(isinstance(value.const_value, ir.ExternalTensor) for value in of.graph.initializers.values())
    _, report = fx.fuse(of)
    assert (report.check.status, report.check.reason) == ("passed", None)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("faulty", "kind", "values"),
    [
        (TanhForErf, "feed_forward", ("g0",)),
        (TanhForErf, "feed_forward", ("g1",)),
        (TanhForErf, "feed_forward", ("g0", "g2")),
        (WrongEpsilon, "norm", ("c1",)),
        (WrongEpsilon, "norm", ("c0", "c1")),
        (Unloadable, "feed_forward", ("g1",)),
        (Unloadable, "feed_forward", ("g0", "g2")),
        (Unloadable, "feed_forward", ("g0", "g1", "g2")),
    ],
)
def test_only_what_is_wrong_is_undone(plant: Plant, faulty: type[Rule], kind: str, values: tuple[str, ...]) -> None:
    places = [int(name[1]) for name in values]
    plant(faulty, *values)
    of = three()
    fused, report = fuse_checked(of, "portable")
    assert_same_function(of, fused)
    other = "norm" if kind == "feed_forward" else "feed_forward"
    assert statuses(report, other) == ["rewritten"] * 3
    undone = [site for site in report.sites if site.status == "rolled back"]
    assert [site.kind for site in undone] == [kind] * len(values)
    assert statuses(report, kind).count("rewritten") == 3 - len(values)
    left = operators(fused)
    assert left.count("Gelu" if kind == "feed_forward" else "RMSNormalization") == 3 - len(values)
    for site, place in zip(undone, places, strict=True):
        assert site.reason is not None
        assert str(place) in site.reason
        assert "Erf" in site.form if kind == "feed_forward" else "Sqrt" in site.form
    assert report.check.status == "rolled back"
    assert report.check.reason is not None
    assert report.check.worst is not None


@pytest.mark.slow
def test_ids_of_sites_are_their_own(plant: Plant) -> None:
    plant(WrongEpsilon, "c0", "c1")
    _, report = fuse_checked(three(), "portable")
    assert len({site.id for site in report.sites}) == len(report.sites)
    assert FusionReport.from_dict(report.to_dict()) == report


def test_difference_says_how_large_it_is(plant: Plant) -> None:
    plant(TanhForErf, "g1")
    _, report = fuse_checked(three(), "portable")
    (site,) = [site for site in report.sites if site.status == "rolled back"]
    assert (site.reason or "").startswith("value 'g1' was computed otherwise: it differs by ")


def test_site_inside_a_body_is_found_by_bisection(plant: Plant) -> None:
    gelu = "q = Div(x, root) s = Erf(q) t = Add(s, one) v = Mul(x, t) g = Mul(v, half)"
    body = f"""z = If (c) <then_branch = a () => (float[batch,seq,8] w) {{ {gelu} w = Neg(g) }},
                           else_branch = b () => (float[batch,seq,8] k) {{ k = Neg(x) }}>
               s1 = Sigmoid(z) y = Mul(z, s1)"""
    plant(TanhForErf, "g")
    of = model(
        body, "float one = {1}, float half = {0.5}, float root = {1.41421356}", inputs="float[batch,seq,8] x, bool c"
    )
    fused, report = fuse_checked(of, "portable")
    assert report.check.status == "rolled back"
    assert operators(fused) == ["If", "Swish"]
    assert [node.op_type for node in fused.graph.all_nodes()].count("Gelu") == 0
    assert [site.status for site in report.sites] == ["rolled back"]


def test_what_cannot_be_told_apart_is_undone_altogether(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fault outside of every rule, as in the folding of weights."""
    rewrite = pipeline.rewrite

    def faulty(*arguments: Any, **forms: Any) -> Any:
        fusion = rewrite(*arguments, **forms)
        scale = fusion.model.graph.initializers["d1"]
        assert scale.const_value is not None
        scale.const_value = ir.tensor(1.01 * scale.const_value.numpy(), name="d1")
        return fusion

    monkeypatch.setattr(checking, "rewrite", faulty)
    of = three()
    fused, report = fuse_checked(of, "portable")
    assert operators(fused) == operators(of)
    assert report.check.status == "rolled back"
    assert (report.check.reason or "").startswith("everything was undone: ")
    assert {site.status for site in report.sites if site.kind != "residual_norm"} == {"rolled back"}
    assert report.nodes["before"] == report.nodes["after"]
    assert report.rules == {}
    assert_same_function(of, fused)


@pytest.mark.usefixtures("as_in_production")
def test_rule_that_raises_costs_the_sites_that_it_is_for(plant: Plant) -> None:
    plant(Raising)
    of = three()
    for check in (True, False):
        _, report = fuse_checked(of, "portable", check)
        assert "Gelu" not in report.rules
        reasons = [site.reason or "" for site in report.sites if site.status == "refused"]
        assert reasons
        assert all("raised KeyError: 'a fault of the rule'" in reason for reason in reasons)


@pytest.mark.usefixtures("as_in_production")
def test_fusing_that_raises_leaves_the_model_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    def raising(*arguments: object, **forms: object) -> None:
        raise KeyError("a fault")

    monkeypatch.setattr(no_ops, "remove", raising)
    of = three()
    for check in (True, False):
        fused, report = fuse_checked(of, "portable", check)
        assert operators(fused) == operators(of)
        assert report.check.status == "not checked"
        assert report.check.reason == "fusing raised KeyError: 'a fault': the model is left as it was"
        assert report.sites == ()


@pytest.mark.usefixtures("as_in_production")
def test_check_that_raises_keeps_what_was_fused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checking, "Trial", lambda *arguments: 1 / 0)
    fused, report = fuse_checked(three(), "portable")
    assert operators(fused).count("Gelu") == 3
    assert (report.check.status, report.check.reason) == (
        "not checked",
        "comparing raised ZeroDivisionError: division by zero",
    )


def test_interrupt_is_none_of_these(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*arguments: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(checking, "Trial", interrupted)
    with pytest.raises(KeyboardInterrupt):
        fuse_checked(three(), "portable")


def test_without_a_check_nothing_runs(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(TanhForErf)
    monkeypatch.setattr(checking, "Trial", None)
    fused, report = fuse_checked(three(), "portable", check=False)
    assert operators(fused).count("Gelu") == 3
    assert (report.check.status, report.check.reason) == ("not checked", "it was not asked for")


class Clock:
    """Tells a later time at each look."""

    def __init__(self, step: float, after: int = 0) -> None:
        self._looks = itertools.count()
        self._step, self._after = step, after

    def __call__(self) -> float:
        return self._step * max(0, next(self._looks) - self._after)


def test_no_time_at_all() -> None:
    fused, report = fuse_checked(three(), "portable", clock=Clock(61))
    assert (report.check.status, report.check.reason) == ("not checked", "the 60 s that it may take were over")
    assert operators(fused).count("Gelu") == 3


@pytest.mark.no_cover
@pytest.mark.parametrize("faulty", [TanhForErf, Unloadable])
@pytest.mark.parametrize(
    "looks", [pytest.param(n, marks=[] if n % 3 == 1 else pytest.mark.exhaustive) for n in range(1, 60)]
)
def test_whenever_the_time_is_over_nothing_known_to_differ_stays(plant: Plant, faulty: type[Rule], looks: int) -> None:
    plant(faulty, "g0", "g2")
    of = three()
    fused, report = fuse_checked(of, "portable", clock=Clock(61, after=looks))
    assert report.check.status != "passed"
    if report.check.status == "rolled back":
        assert_same_function(of, fused)
        assert any(site.status == "rolled back" for site in report.sites)


def test_weights_above_the_limit() -> None:
    _, report = fuse_checked(three(), "portable", limits=Limits(weight_bytes=100))
    assert report.check.status == "not checked"
    assert "its weights take" in (report.check.reason or "")


def test_many_nodes_are_not_optimised_by_the_runtime() -> None:
    _, report = fuse_checked(three(), "portable", limits=Limits(optimised_nodes=3))
    assert report.check.status == "passed"
    assert (report.check.reason or "").startswith("not at the default level")


def test_few_bytes_for_values_still_compare_the_outputs(plant: Plant) -> None:
    plant(TanhForErf, "g1")
    of = three()
    fused, report = fuse_checked(of, "portable", limits=Limits(value_bytes=0))
    assert_same_function(of, fused)
    assert operators(fused).count("Gelu") == 2
    assert statuses(report, "feed_forward") == ["rewritten", "rolled back", "rewritten"]


def test_nodes_of_native_kernels_that_cannot_be_compared_are_undone(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(model: ir.Model, report: FusionReport, **options: Any) -> tuple[ir.Model, FusionReport]:
        if options.get("outlines"):
            raise RuntimeError("planted")
        return model, report

    monkeypatch.delenv("FFN_EXPORT_STRICT", raising=False)
    monkeypatch.setattr(checking, "finish", broken)
    fused, report = fuse_checked(three(), "ort-native")
    assert report.check.status == "rolled back"
    assert report.check.reason == "the nodes of native kernels were undone: comparing raised RuntimeError: planted"
    assert_same_function(fused, three())
