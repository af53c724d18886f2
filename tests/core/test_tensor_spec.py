from __future__ import annotations

from typing import Any

import pytest
import torch

from ffn_export.core.tensor_spec import Dim, Sum, TensorSpec, merge_dims, parse_inputs, symbolic_axis
from ffn_export.errors import UsageError
from tests.exporter.helpers import refusal


@pytest.mark.parametrize(
    ("text", "spec"),
    [
        ("x:float32[batch,seq,768]", TensorSpec("x", "float32", (Dim("batch"), Dim("seq"), 768))),
        ("x:float16[seq<=512]", TensorSpec("x", "float16", (Dim("seq", 0, 512),))),
        ("x:bfloat16[2<=seq<=512]", TensorSpec("x", "bfloat16", (Dim("seq", 2, 512),))),
        ("x:float64[seq>=2]", TensorSpec("x", "float64", (Dim("seq", 2),))),
        ("x:float32[2<=seq]", TensorSpec("x", "float32", (Dim("seq", 2),))),
        ("temperature:float32[]", TensorSpec("temperature", "float32", ())),
        ("ids:int64[batch,seq]{0..98}", TensorSpec("ids", "int64", (Dim("batch"), Dim("seq")), (0, 98))),
        ("d:int8[n]{-128..127}", TensorSpec("d", "int8", (Dim("n"),), (-128, 127))),
        ("encoder.x_1:bool[batch.size,0]", TensorSpec("encoder.x_1", "bool", (Dim("batch.size"), 0))),
        (" x : float32[ batch , 2 <= seq <= 512 ] ", TensorSpec("x", "float32", (Dim("batch"), Dim("seq", 2, 512)))),
        ("m:int64[batch,seq]{mask}", TensorSpec("m", "int64", (Dim("batch"), Dim("seq")), is_mask=True)),
        ("m:int64[batch, past + seq]", TensorSpec("m", "int64", (Dim("batch"), Sum(("past", "seq"))))),
        ("x:float32[n]{0..255}", TensorSpec("x", "float32", (Dim("n"),), (0, 255))),
        ("x:float16[n]{ -1.5 .. 2e-3 }", TensorSpec("x", "float16", (Dim("n"),), (-1.5, 0.002))),
        ("ids: int32[n] { 0 .. 3 }", TensorSpec("ids", "int32", (Dim("n"),), (0, 3))),
    ],
)
def test_parse(text: str, spec: TensorSpec) -> None:
    assert TensorSpec.parse(text) == spec


@pytest.mark.parametrize(
    "text",
    [
        "float32[batch,2<=seq<=512,768]",
        "int64[n]{0..98}",
        "bool[]",
        "float32[2<=seq]",
        "bool[n]{mask}",
        "int64[a+b]",
        "float32[n]{0..255}",
        "float32[n]{-1.5..1e-07}",
        "bfloat16[n]{-1e+30..3.0}",
    ],
)
def test_written_as_it_is_read(text: str) -> None:
    assert str(TensorSpec.parse_tensor("x", text)) == text


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("x", "input 'x' does not parse: write NAME:DTYPE[DIM,...], as in 'x:float32[batch,seq,768]'"),
        (":float32[n]", "input name '' does not parse"),
        ("1x:float32[n]", "input name '1x' does not parse"),
        ("x y:float32[n]", "input name 'x y' does not parse"),
        ("x:", "type '' of input 'x' does not parse: write DTYPE[DIM,...]"),
        ("x:float32", "type 'float32' of input 'x' does not parse"),
        ("x:fl oat32[n]", "does not parse"),
        ("x:int64[n]{0..3", "does not parse"),
        ("x:int64[n]{0..}", "does not parse"),
        ("x:int64[n]{masks}", "does not parse"),
        ("x:float32[n]{mask}", "input 'x' is float32, a mask is of integers or bool: leave {mask} out"),
        ("x:flaot32[n]", "unknown dtype 'flaot32'; did you mean 'float32'?"),
        ("x:complex64[n]", "unknown dtype 'complex64'"),
        ("x:float32[batch,]", "dimension '' of input 'x' does not parse: write a size, a name, a bounded name"),
        ("x:float32[seq+1]", "dimension 'seq+1' of input 'x' does not parse: write a size, a name, a bounded name"),
        ("x:float32[-1]", "dimension '-1' of input 'x' does not parse"),
        ("x:float32[batch=2]", "dimension 'batch=2' of input 'x' does not parse"),
        ("x:float32[seq<512]", "dimension 'seq<512' of input 'x' does not parse"),
        ("x:float32[a..b]", "dimension 'a..b' of input 'x' does not parse"),
        # Blanks separate nothing: "2 3" is neither 23 nor two sizes.
        ("x:float32[2 3]", "dimension '2 3' of input 'x' does not parse"),
        ("x:float32[batch size]", "dimension 'batch size' of input 'x' does not parse"),
        # Digits, but none that int() or a shape takes.
        ("x:float32[²]", "dimension '²' of input 'x' does not parse"),
        ("x:float32[٣]", "dimension '٣' of input 'x' does not parse"),
        ("x:float32[99999999999999999999]", "is too large: write at most 2147483647"),
        ("x:float32[seq<=99999999999999999999]", "is too large: write at most 2147483647"),
        ("x:float32[5<=seq<=3]", "dimension '5<=seq<=3' of input 'x' has no size within its bounds"),
        ("x:int64[n]{3..1}", "value range {3..1} of input 'x' is empty"),
        ("x:float32[n]{1.5..-1}", "value range {1.5..-1} of input 'x' is empty"),
        (
            "x:int64[n]{0..1.5}",
            "value range {0..1.5} of input 'x' is of floats, the input is int64: write whole numbers",
        ),
        ("x:float16[n]{0..70000}", "does not fit float16: stay within {-65504..65504}"),
        ("x:float64[n]{0..1e400}", "does not fit float64"),
        ("x:float32[n]{0..nan}", "does not parse"),
        ("x:int8[n]{0..300}", "does not fit int8: stay within {-128..127}"),
        ("x:uint8[n]{-1..3}", "does not fit uint8: stay within {0..255}"),
        ("x:bool[n]{0..2}", "does not fit bool: stay within {0..1}"),
        ("x:int64[n]{0..99999999999999999999}", "does not fit int64"),
    ],
)
def test_what_does_not_parse_is_named_with_what_to_write(text: str, words: str) -> None:
    assert words in refusal(UsageError, TensorSpec.parse, text)


def test_an_unknown_dtype_is_refused_without_parsing_too() -> None:
    assert "unknown dtype 'uint32'" in refusal(UsageError, TensorSpec, "x", "uint32", (2,))


def test_inputs_as_mapping_sequence_or_one_string() -> None:
    expected = (TensorSpec("x", "float32", (Dim("n"), 4)),)
    assert parse_inputs({"x": "float32[n,4]"}) == expected
    assert parse_inputs(["x:float32[n,4]"]) == expected
    assert parse_inputs("x:float32[n,4]") == expected
    assert parse_inputs(expected) == expected
    assert parse_inputs({"x": TensorSpec("other", "float32", (Dim("n"), 4))}) == expected


@pytest.mark.parametrize(
    ("inputs", "words"),
    [
        (["x:float32[2]", "x:float32[3]"], "input 'x' is given twice"),
        ({"": "float32[2]"}, "input name '' does not parse"),
        ({"a\nb": "float32[2]"}, r"input name 'a\nb' does not parse"),
        ({"x": torch.zeros(2, 3)}, "input 'x' is given as Tensor: write its type as text"),
        ({"x": ("batch", 3)}, "input 'x' is given as tuple: write its type as text"),
        ([3], "an input is given as int: write its type as text"),
        (None, "an input is given as NoneType: write its type as text"),
        ({"a": "float32[n<=2]", "b": "float32[3<=n]"}, "dimension 'n' has no size within all of its bounds"),
        ({"a": "float32[n<=2]", "b": "float32[2<=n]"}, "'2<=n<=2' has one size only: write 2 instead of the name"),
        (
            {"a": "float32[past,seq]", "b": "int64[pasd+seq]"},
            "dimension 'pasd+seq' of input 'b' adds 'pasd', which is no axis of an input; did you mean 'past'?",
        ),
        ({"a": "float32[n<=0]"}, "'n<=0' has one size only: write 0 instead of the name"),
    ],
)
def test_inputs_that_make_no_sense(inputs: Any, words: str) -> None:
    assert words in refusal(UsageError, parse_inputs, inputs)


def test_bounds_hold_wherever_the_name_stands() -> None:
    specs = parse_inputs({"a": "float32[2<=n,seq]", "b": "float32[n<=8]"})
    assert [str(spec) for spec in specs] == ["float32[2<=n<=8,seq]", "float32[2<=n<=8]"]
    assert merge_dims(specs) == {"n": Dim("n", 2, 8), "seq": Dim("seq")}


def test_shape_and_symbolic_axes() -> None:
    spec = TensorSpec.parse("x:float32[batch,3,seq]")
    assert spec.shape({"batch": 2, "seq": 7}) == (2, 3, 7)
    assert spec.symbolic == {0: Dim("batch"), 2: Dim("seq")}
    mask = TensorSpec.parse("m:int64[batch,past+seq]")
    assert mask.shape({"batch": 2, "past": 3, "seq": 7}) == (2, 10)
    assert (mask.symbolic, mask.derived) == ({0: Dim("batch")}, {1: Sum(("past", "seq"))})
    assert [Dim("n", 2, 5).clamp(size) for size in (0, 3, 9)] == [2, 3, 5]


def test_a_graph_names_a_sum_by_its_terms() -> None:
    assert symbolic_axis("past + seq", {"past", "seq"}) == Sum(("past", "seq"))
    assert symbolic_axis("past + seq", {"seq"}) == Dim("past + seq")
