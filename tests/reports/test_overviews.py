"""Tables over several models, and those of inspections and differences."""

from __future__ import annotations

from ffn_export.inspection.difference import Change, Difference, NodeChange, Side, WeightPair
from ffn_export.inspection.result import InspectedSite, Inspection, Part, Weight
from ffn_export.parity.judging.result import ParityResult
from ffn_export.reports.markdown_table import markdown_table
from ffn_export.reports.tables import difference_table, inspection_table, parity_summary_table
from ffn_export.reports.tables.models import opset_words, signature
from tests.reports.test_tables import printed, row

X = {"name": "x", "dtype": "float32", "shape": ["batch", "seq", 4]}
SIDE = Side("a.onnx", (X,), (X,), {"": 20}, {"MatMul": 2}, 1000, 900)


def test_summary_has_one_row_a_model(passed: ParityResult, warned: ParityResult, failed: ParityResult) -> None:
    table = parity_summary_table({"good": passed, "fair": warned, "bad": failed, "damaged": "a hash differs"})
    assert row(table, "good") == ["good", "passed", "2", "1.90", "ort-cpu"]
    assert row(table, "fair")[:5] == ["fair", "warned", "2", "12.00", "ort-cpu"]
    assert "1.50 times what is allowed" in row(table, "fair")[-1]
    assert row(table, "bad")[:4] == ["bad", "FAILED", "3", "292.40"]
    assert row(table, "damaged") == ["damaged", "FAILED", "0", "a hash differs"]


def test_inspection_prints_names_literally_and_says_what_is_missing() -> None:
    sites = (
        InspectedSite("norm:0", "norm", "n[0]", "rewritten", "Pow Mul", "RMSNormalization", "rms-norm", None, 16),
        InspectedSite("norm:1", "norm", "n[1]", "refused", "Sub Div", "Sub Div", "layer-norm", "epsilon is no scalar"),
    )
    weight = Weight("w[red]", "float32", (4, 8), 128, "other")
    table = inspection_table(
        Inspection(
            "m.onnx",
            "pytorch 2",
            10,
            {"": 20, "com.microsoft": 1},
            (X,),
            (),
            {"MatMul": 3},
            ("a::B",),
            (Part("other", 1, 128),),
            (weight,),
            "ort-cpu",
            sites,
            {"before": 5, "after": 3},
            ("weights are missing",),
        )
    )
    lines = printed(table)
    assert "weights are missing" in lines
    assert row(table, "input") == ["input", "x:float32[batch,seq,4]"]
    assert row(table, "w[red]") == ["w[red]", "float32[4,8]", "128", "other"]
    assert row(table, "norm:0")[1:5] == ["rewritten", "Pow Mul", "RMSNormalization", "rms-norm"]
    assert row(table, "norm:1")[1:5] == ["refused", "Sub Div", "same", "layer-norm: epsilon is no scalar"]


def test_difference_tells_only_the_weights_that_are_not_the_same() -> None:
    weights = (
        WeightPair("equal", "w", "w", "float32[4]", "float32[4]"),
        WeightPair("equal", "v", "u", "float32[4,8]", "float32[8,4]", transposed=True),
        WeightPair("changed", "b", "b", "float32[4]", "float32[4]", max_relative=0.25),
    )
    table = difference_table(Difference(SIDE, SIDE, weights, same_wiring=True))
    lines = printed(table)
    assert lines[0] == "the models differ"
    assert "weights: 2 equal, 1 changed" in lines
    assert row(table, "v")[2] == "equal, renamed, transposed"
    assert row(table, "b")[2:4] == ["changed", "0.25"]
    assert not any(line.startswith("w ") for line in lines)
    assert printed(difference_table(Difference(SIDE, SIDE, weights[:2], same_wiring=True)))[0] == (
        "the models are the same"
    )


def test_nodes_that_changed_alike_are_one_row() -> None:
    tanh = (Change("approximate", "none", "tanh"),)
    nodes = (
        *(NodeChange("changed", "MatMul", f"m{n}", f"m{n}", (Change("input 0", f"h{n}", f"g{n}"),)) for n in range(9)),
        *(NodeChange("changed", "Gelu", f"gelu_{n}", f"gelu_{n}", tanh) for n in range(5)),
        NodeChange("only in B", "Cast", b="cast"),
    )
    table = difference_table(Difference(SIDE, SIDE, (), same_wiring=False, nodes=nodes))
    assert "nodes: 14 changed, 1 only in B" in printed(table)
    assert row(table, "gelu_0, gelu_1, gelu_2 and 2 more")[1:] == ["Gelu", "changed", "approximate none → tanh"]
    assert row(table, "m0, m1, m2 and 6 more")[1:] == ["MatMul", "changed", "input 0 h0 → g0"]
    assert row(table, "cast") == ["cast", "Cast", "only in B"]


def test_a_signature_without_a_shape_says_so() -> None:
    assert signature({"name": "y", "dtype": "float32", "shape": None}) == "y:float32[...]"
    assert opset_words({"com.microsoft": 1, "": 20}) == "20, com.microsoft 1"


def test_markdown_keeps_a_pipe_inside_its_cell() -> None:
    text = markdown_table(("a", "n"), [("x|y", "1")], numbers=("n",))
    assert text == "| a | n |\n| --- | ---: |\n| x\\|y | 1 |\n"
