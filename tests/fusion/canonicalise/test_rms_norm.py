"""RMSNorm: every spelling becomes one RMSNormalization, where the operator computes just that."""

from __future__ import annotations

from itertools import product

import onnx_ir as ir
import pytest

from ffn_export.fusion.pipeline import fuse
from tests.fusion.graphs import Writer, assert_fuses, assert_refuses, body, cast, model, operators

SCALE = "float[8] scale = {1.5,-1,0.25,2,1,0.5,3,-2}"
CONSTANTS = f"float two = {{2}}, int64[1] axes = {{-1}}, float epsilon = {{1e-5}}, {SCALE}"
PIECES = ["Pow", "ReduceMean", "Add", "Sqrt", "Reciprocal", "Mul", "Mul"]


def write(
    square: str = "Pow",
    inverse: str = "Reciprocal",
    order: int = 0,
    to: str = "y",
    reduce: str = "",
    axes: str = "axes",
) -> Writer:
    op = Writer(order)
    squared = op("Pow", "x", "two") if square == "Pow" else op("Mul", "x", "x")
    mean = op("ReduceMean", squared, *([axes] if axes else []), attributes=reduce)
    root = op("Sqrt", op("Add", mean, "epsilon"))
    normalised = op("Mul", "x", op("Reciprocal", root)) if inverse == "Reciprocal" else op("Div", "x", root)
    op("Mul", normalised, "scale", to=to)
    return op


def norm(constants: str = CONSTANTS, *, x: str = "float[batch,seq,8]", opset: int = 23, reduce: str = "") -> ir.Model:
    return model(body(write(reduce=reduce)), constants, inputs=f"{x} x", outputs=f"{x} y", opset=opset)


def test_every_spelling_in_every_operand_order() -> None:
    writers: list[Writer] = []
    names: list[str] = []
    for square, inverse in product(("Pow", "Mul"), ("Reciprocal", "Div")):
        # The square's operands are one value, so its bit stays 0.
        bits = 2 + (inverse == "Reciprocal")
        for order in range(2**bits):
            names.append(f"y{len(names)}")
            writers.append(write(square, inverse, order << (square == "Mul"), names[-1]))
    outputs = ", ".join(f"float[batch,seq,8] {name}" for name in names)
    fused, report = assert_fuses(
        model(body(*writers), CONSTANTS, outputs=outputs, opset=20), ["RMSNormalization"] * len(names)
    )
    assert report.rules == {"norm-scale": 24, "rms-norm": 24}
    assert fused.opset_imports == {"": 23}
    for node in fused.graph:
        assert node.attributes.get_int("axis") == -1
        assert node.attributes.get_float("epsilon") == pytest.approx(1e-5)
        assert node.attributes.get_int("stash_type") == 1


@pytest.mark.parametrize("axes", ["int64[1] axes = {2}", "int64[1] axes = {-1}"])
def test_last_axis_positive_or_negative(axes: str) -> None:
    assert_fuses(norm(CONSTANTS.replace("int64[1] axes = {-1}", axes)), ["RMSNormalization"])


@pytest.mark.parametrize("axes", ["{1,2}", "{2,1}", "{-1,-2}", "{-2,2}", "{-1,1}"])
def test_several_trailing_axes_in_any_order(axes: str) -> None:
    constants = CONSTANTS.replace("int64[1] axes = {-1}", f"int64[2] axes = {axes}")
    constants = constants.replace("float[8] scale", "float[2,4] scale")
    fused, _ = assert_fuses(norm(constants, x="float[batch,2,4]"), ["RMSNormalization"])
    assert fused.graph[0].attributes.get_int("axis") == -2


def test_all_axes() -> None:
    assert_fuses(norm(CONSTANTS.replace("axes = {-1}", "axes = {0}"), x="float[8]"), ["RMSNormalization"])


def test_default_epsilon_of_the_operator_is_not_taken() -> None:
    fused, _ = assert_fuses(norm(CONSTANTS.replace("{1e-5}", "{0.25}")), ["RMSNormalization"])
    assert fused.graph[0].attributes.get_float("epsilon") == 0.25


def test_constants_of_shape_1_and_constant_nodes() -> None:
    constants = CONSTANTS.replace("float two", "int64[1] two").replace("float epsilon = {1e-5}, ", "")
    nodes = "epsilon = Constant<value_floats = [1e-5]>() "
    assert_fuses(model(nodes + body(write()), constants, opset=23), ["RMSNormalization"])


def test_scale_may_be_an_input() -> None:
    constants = CONSTANTS.replace(f", {SCALE}", "")
    inputs = "float[batch,seq,8] x, float[8] scale"
    assert_fuses(model(body(write()), constants, inputs=inputs, opset=23), ["RMSNormalization"])


def test_scale_may_be_computed_after_the_statistics() -> None:
    op = write()
    last = op.lines.pop()
    op.lines.append("scale = Neg(weight)")
    op.lines.append(last)
    computed = model(body(op), CONSTANTS.replace("scale", "weight"), opset=23)
    # The scale is a small expression of constants, so it is worked out.
    assert_fuses(computed, ["RMSNormalization"])
    inputs = "float[batch,seq,8] x, float[8] weight"
    at_runtime = model(body(op), CONSTANTS.replace(f", {SCALE}", ""), inputs=inputs, opset=23)
    assert_fuses(at_runtime, ["Neg", "RMSNormalization"])


def test_x_goes_on_as_a_residual() -> None:
    residual = body(write(to="n")) + "\ny = Add(x, n)"
    assert_fuses(model(residual, CONSTANTS, opset=23), ["RMSNormalization", "Add"])


def test_float16() -> None:
    assert_fuses(cast(norm(), ir.DataType.FLOAT16), ["RMSNormalization"])


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("float epsilon = {1e-5}", "float[8] epsilon = {1,1,1,1,1,1,1,1}", "epsilon is no constant scalar but"),
        ("axes = {-1}", "axes = {1}", "not taken over constant trailing axes"),
        ("axes = {-1}", "axes = {0}", "not taken over constant trailing axes"),
        ("int64[1] axes = {-1}", "int64[2] axes = {0,2}", "not taken over constant trailing axes"),
        ("int64[1] axes = {-1}", "int64[0] axes = {}", "not taken over constant trailing axes"),
    ],
)
def test_refuses_what_the_operator_does_not_compute(old: str, new: str, reason: str) -> None:
    assert old in CONSTANTS
    report = assert_refuses(norm(CONSTANTS.replace(old, new)), reason)
    (site,) = report.sites
    assert (site.kind, site.rule) == ("norm", "rms-norm")
    assert sorted(site.form.split()) == sorted(PIECES)


@pytest.mark.parametrize("epsilon", ["float[1] epsilon", "float[1,1] epsilon", "float[1,1,1] epsilon"])
def test_epsilon_with_no_more_axes_than_the_input(epsilon: str) -> None:
    assert_fuses(norm(CONSTANTS.replace("float epsilon", epsilon)), ["RMSNormalization"])


def test_refuses_an_epsilon_with_more_axes_than_the_input() -> None:
    constants = CONSTANTS.replace("float epsilon", "float[1,1,1,1] epsilon")
    widened = model(body(write()), constants, outputs="float[1,batch,seq,8] y", opset=23)
    assert_refuses(widened, "epsilon is no constant scalar: it has more axes than the input")


@pytest.mark.parametrize(
    "scale",
    ["float[1,8] scale", "float[1,1,8] scale", "float scale = {2}", "float[1] scale = {2}", "float[1,1,1] scale = {2}"],
)
def test_a_scale_in_any_shape_that_holds_one_number_for_each_feature(scale: str) -> None:
    constants = CONSTANTS.replace(SCALE, scale) if "=" in scale else CONSTANTS.replace("float[8] scale", scale)
    fused, _ = assert_fuses(norm(constants), ["RMSNormalization"])
    (row,) = fused.graph.initializers.values()
    assert row.shape == (8,)


@pytest.mark.parametrize(
    ("scale", "y"),
    [
        ("float[1,1,1,8] scale", "float[1,2,3,8]"),  # more axes than the input
        ("float[3,8] scale", "float[2,3,8]"),  # another for each token
        ("float[3,1] scale", "float[2,3,8]"),
    ],
)
def test_a_scale_that_is_no_row_stays_a_product(scale: str, y: str) -> None:
    size = 24 if "3,8" in scale else 3 if "3,1" in scale else 8
    constants = CONSTANTS.replace(SCALE, f"{scale} = {{{','.join(map(str, range(1, size + 1)))}}}")
    of = model(body(write()), constants, inputs="float[2,3,8] x", outputs=f"{y} y", opset=23)
    assert_fuses(of, ["RMSNormalization", "Mul"])


def test_the_norm_of_one_channel_scaled_to_many_stays_a_product() -> None:
    widened = model(body(write()), CONSTANTS, inputs="float[2,1] x", outputs="float[2,8] y", opset=23)
    assert_fuses(widened, ["RMSNormalization", "Mul"])


def test_a_row_of_fewer_axes_than_are_normalised_stays_a_product() -> None:
    constants = CONSTANTS.replace("int64[1] axes = {-1}", "int64[2] axes = {1,2}")
    assert_fuses(norm(constants, x="float[batch,2,8]"), ["RMSNormalization", "Mul"])


def test_normalised_axis_of_unknown_size() -> None:
    assert_refuses(norm(x="float[batch,seq,width]"), "the size of a normalised axis is not known", runs=False)
    named = CONSTANTS.replace(f", {SCALE}", "")
    inputs = "float[batch,width] x, float[width] scale"
    dynamic = model(body(write()), named, inputs=inputs, outputs="float[batch,width] y", opset=23)
    assert_refuses(dynamic, "the size of a normalised axis is not known")


def test_normalised_axis_of_no_size() -> None:
    constants = CONSTANTS.replace(SCALE, "float scale = {2}")
    assert_refuses(norm(constants, x="float[2,0]"), "the size of a normalised axis is not known", runs=False)


def test_rank_that_is_not_known() -> None:
    assert_refuses(norm(x="float[]"), "the rank of the input or of the scale is not known")
    constants = CONSTANTS.replace(f", {SCALE}", "")
    inputs = "float[2,8] x, float[] scale"
    unknown = model(body(write()), constants, inputs=inputs, outputs="float[2,8] y", opset=23)
    fused, _ = fuse(unknown, "portable")
    assert operators(fused) == ["RMSNormalization", "Mul"]


def test_scalar_input() -> None:
    nothing = CONSTANTS.replace(SCALE, "float scale = {2}").replace("int64[1] axes = {-1}", "int64[0] axes = {}")
    assert_refuses(norm(nothing, x="float"), "not taken over constant trailing axes")
    assert_refuses(norm(CONSTANTS, x="float"), "the size of a normalised axis is not known", runs=False)


def test_axis_that_does_not_exist() -> None:
    assert_refuses(norm(CONSTANTS.replace("axes = {-1}", "axes = {5}")), "trailing axes", runs=False)


def test_keepdims_0() -> None:
    square = norm(x="float[8,8]", reduce="<keepdims = 0>")  # then the mean broadcasts along the wrong axis
    assert_refuses(square, "the mean drops its axes (keepdims=0)")


def test_no_axes() -> None:
    for attributes in ("", "<noop_with_empty_axes = 1>"):
        everything = model(body(write(axes="", reduce=attributes)), CONSTANTS, opset=23)
        assert_refuses(everything, "not taken over constant trailing axes")
    empty = CONSTANTS.replace("int64[1] axes = {-1}", "int64[0] axes = {}")
    assert_refuses(norm(empty, reduce="<noop_with_empty_axes = 1>"), "not taken over constant trailing axes")


def test_axes_that_are_an_input() -> None:
    constants = CONSTANTS.replace("int64[1] axes = {-1}, ", "")
    inputs = "float[2,8] x, int64[1] axes = {-1}"
    assert_refuses(
        model(body(write()), constants, inputs=inputs, outputs="float[2,8] y", opset=23), "not taken over constant"
    )


def test_axes_as_an_attribute() -> None:
    old = model(body(write(axes="", reduce="<axes = [-1]>")), CONSTANTS, opset=17)
    fused, _ = assert_fuses(old, ["RMSNormalization"])
    assert fused.opset_imports == {"": 23}
    middle = model(body(write(axes="", reduce="<axes = [1]>")), CONSTANTS, opset=17)
    assert_refuses(middle, "not taken over constant trailing axes")


def test_epsilon_that_is_an_input() -> None:
    constants = CONSTANTS.replace("float epsilon = {1e-5}, ", "")
    for epsilon in ("float epsilon", "float epsilon = {1e-5}"):
        inputs = f"float[2,8] x, {epsilon}"
        of = model(body(write()), constants, inputs=inputs, outputs="float[2,8] y", opset=23)
        reason = "epsilon is no constant scalar: the caller may change it" if "=" in epsilon else "but 'epsilon'"
        assert_refuses(of, reason, runs="=" in epsilon)


@pytest.mark.parametrize(
    "exponent", ["float two = {4}", "int64 two = {4}", "float two = {3}", "float two = {2.0000002}"]
)
def test_another_power_is_no_rms_norm(exponent: str) -> None:
    # A broken power of a negative number is NaN, and so is the root of a negative mean.
    of = norm(CONSTANTS.replace("float two = {2}", exponent))
    assert_refuses(of, None, runs="4" in exponent)


def test_norm_of_another_value_is_no_rms_norm() -> None:
    op = write()
    op.lines[5] = op.lines[5].replace("(x,", "(z,")
    two = model(body(op), CONSTANTS, inputs="float[2,8] x, float[2,8] z", outputs="float[2,8] y", opset=23)
    assert_refuses(two, None)


@pytest.mark.parametrize(
    "pieces",
    [
        "p = Mul(x, x) m = ReduceMean(p, axes) v = Add(m, epsilon) r = Pow(v, minus) n = Mul(x, r)",
        "p = Mul(x, x) m = ReduceMean(p, axes) v = Add(m, epsilon) r = Pow(v, half) n = Div(x, r)",
        "p = Mul(x, x) m = ReduceSum(p, axes) d = Div(m, eight) v = Add(d, epsilon) r = Sqrt(v) n = Div(x, r)",
        "p = Pow(x, two) m = ReduceSum(p, axes) d = Mul(eighth, m) v = Add(epsilon, d) r = Sqrt(v) n = Div(x, r)",
        "m = ReduceSumSquare(x, axes) d = Div(m, eight) v = Add(d, epsilon) r = Sqrt(v) n = Div(x, r)",
        "p = Mul(x, x) k = ReduceMean<keepdims = 0>(p, axes) m = Unsqueeze(k, axes) v = Add(m, epsilon) r = Sqrt(v)"
        " n = Div(x, r)",
        "p = Mul(x, x) m = ReduceMean(p, axes) v = Sub(m, negative) r = Sqrt(v) i = Div(one, r) n = Mul(i, x)",
        "p = Mul(x, x) m = ReduceMean(p, axes) v = Add(m, epsilon) r = Sqrt(v) n = Div(x, r)",
        "p = Mul(x, x) m = ReduceMean(p, axes) r = Sqrt(m) n = Div(x, r)",  # without an epsilon
    ],
)
@pytest.mark.parametrize("scale", ["y = Mul(n, scale)", "w = Add(scale, one) y = Mul(w, n)", "y = Identity(n)"])
def test_in_other_words(pieces: str, scale: str) -> None:
    constants = CONSTANTS + ", float half = {0.5}, float minus = {-0.5}, float eight = {8}, float eighth = {0.125}"
    of = model(f"{pieces} {scale}", constants + ", float one = {1}, float negative = {-1e-5}", opset=20)
    assert_fuses(of, ["RMSNormalization", "Identity"] if "Identity" in scale else ["RMSNormalization"])


def test_the_scale_before_the_quotient() -> None:
    pieces = "p = Mul(x, x) m = ReduceMean(p, axes) v = Add(m, epsilon) r = Sqrt(v) s = Mul(x, scale) y = Div(s, r)"
    _, report = assert_fuses(model(pieces, CONSTANTS, opset=23), ["RMSNormalization"])
    assert report.rules == {"rms-norm": 1}
    half = model(pieces.replace("y = Div(s, r)", "t = Mul(s, two) y = Div(t, r)"), CONSTANTS, opset=23)
    assert_fuses(half, ["RMSNormalization"])


@pytest.mark.parametrize(
    ("pieces", "reason"),
    [
        ("s = ReduceSum(p, axes) m = Div(s, seven) v = Add(m, epsilon) r = Sqrt(v) y = Div(x, r)", "1.14286 times the"),
        ("s = ReduceSum(p, axes) v = Add(s, epsilon) r = Sqrt(v) y = Div(x, r)", "8 times the mean"),
        ("m = ReduceMean(p, axes) v = Sub(m, epsilon) r = Sqrt(v) y = Div(x, r)", None),
        ("m = ReduceMean(p, axes) v = Sub(epsilon, m) r = Sqrt(v) y = Div(x, r)", None),
        ("m = ReduceMean(p, axes) r = Sqrt(m) v = Add(r, epsilon) y = Div(x, v)", "epsilon is added to the root"),
        ("m = ReduceMean(p, axes) r = Sqrt(m) v = Max(r, epsilon) y = Div(x, v)", "epsilon is a floor below the root"),
        ("m = ReduceMean(p, axes) v = Add(m, epsilon) r = Sqrt(v) y = Mul(x, r)", None),
        ("m = ReduceMean(p, axes) v = Add(m, epsilon) y = Div(x, v)", None),
        ("m = ReduceMean(p, axes) v = Add(m, epsilon) r = Sqrt(v) y = Div(r, x)", None),
        ("m = ReduceMax(p, axes) v = Add(m, epsilon) r = Sqrt(v) y = Div(x, r)", None),
        ("a = Abs(p) m = ReduceMean(a, axes) v = Add(m, epsilon) r = Sqrt(v) y = Div(x, r)", None),
        (
            "k = ReduceMean<keepdims=0>(p, axes) m = Unsqueeze(k, zero) v = Add(m, epsilon) r = Sqrt(v) y = Div(x, r)",
            "the mean gets its axes back in another place",
        ),
        (
            "k = ReduceMean(p, axes) m = Unsqueeze(k, zero) v = Add(m, epsilon) r = Sqrt(v) y = Div(x, r)",
            "the mean gets an axis more than the input has",
        ),
        (
            "s = ReduceSum(p, axes) m = Div(s, wide) v = Add(m, epsilon) r = Sqrt(v) y = Div(x, r)",
            "a constant of the mean has more axes than the input",
        ),
    ],
)
def test_what_only_looks_alike(pieces: str, reason: str | None) -> None:
    constants = CONSTANTS + ", float seven = {7}, int64[1] zero = {0}, float[1,1,1] wide = {8}"
    of = model("p = Mul(x, x) " + pieces, constants, inputs="float[8,8] x", outputs="float[] y", opset=23)
    assert_refuses(of, reason, runs="Sub" not in pieces)


def test_unsqueezed_mean_of_unknown_rank() -> None:
    pieces = """u = my.Op(x) p = Mul(u, u) k = ReduceMean<keepdims = 0>(p, axes) m = Unsqueeze(k, axes)
                v = Add(m, epsilon) r = Sqrt(v) y = Div(u, r)"""
    assert_refuses(model(pieces, CONSTANTS, domains=["my"]), "the rank of the input is not known", runs=False)


def test_statistics_from_outside_of_a_body_are_not_taken_in() -> None:
    branches = """y = If (c) <
        then_branch = t () => (float[2,8] a) { d = Div(s, eight) v = Add(d, epsilon) r = Sqrt(v) a = Div(x, r) },
        else_branch = e () => (float[2,8] b) { b = Neg(x) }>"""
    constants = CONSTANTS + ", float eight = {8}"
    inputs = "float[2,8] x, bool c"
    of = model("s = ReduceSumSquare(x, axes)" + branches, constants, inputs=inputs, outputs="float[2,8] y", opset=23)
    assert_refuses(of, None)
