"""How far a graph may be raised, and that raising changes nothing."""

from __future__ import annotations

import onnx
import onnx_ir as ir
import onnxruntime
import pytest

from ffn_export.fusion import opset
from ffn_export.runtimes.session_options import NO_OPTIMIZER
from tests.fusion.graphs import assert_same_function, model

ONE = "float[2] one = {1,1}"


def ceiling(body: str, version: int, constants: str = "", **options: str) -> int:
    return opset.ceiling(model(body, constants, opset=version, **options))


@pytest.mark.parametrize("version", [14, 18, 20, 25, 26, 27])
def test_operators_that_only_gained_types(version: int) -> None:
    assert ceiling("a = Relu(x) b = MatMul(a, a) c = Cast<to = 1>(b) y = Identity(c)", version) == max(version, 26)


@pytest.mark.parametrize(
    ("body", "version", "highest"),
    [
        ("y = GroupNormalization<num_groups = 2>(x, one, one)", 18, 20),  # scale per channel, stash_type
        ("y = Softmax(x)", 11, 12),  # another default axis
        ("y = ReduceMean<axes = [1]>(x)", 13, 26),  # axes became an input, which an adapter writes
        ("y = Squeeze<axes = [1]>(x)", 11, 26),
        ("y = Upsample(x, one)", 9, 9),  # deprecated
        ("y = Scatter(x, x, x)", 9, 10),
        ("y, m = Dropout(x)", 7, 9),  # the mask became boolean
        ("y = GridSample(x, x)", 16, 19),  # the modes have other names
        ("y = DequantizeLinear(x, one)", 13, 26),
        ("y = Attention(x, x, x)", 23, 24),  # another input
        ("y = NoSuchOperator(x)", 18, 18),
        ("y = SimplifiedLayerNormalization(x, one)", 18, 18),  # in the standard domain by mistake
        ("y = RoiAlign(x, x, x)", 16, 21),  # onnxruntime has no kernel of 22
    ],
)
def test_operators_that_changed(body: str, version: int, highest: int) -> None:
    assert ceiling(body, version, ONE) == highest


def test_looks_into_bodies() -> None:
    branches = """y = If (c) <
        then_branch = t () => (float[2] a) { a = GroupNormalization<num_groups = 2>(x, one, one) },
        else_branch = e () => (float[2] b) { b = Neg(x) }>"""
    assert ceiling(branches, 18, ONE, inputs="float[2] x, bool c") == 20


def test_looks_into_functions() -> None:
    of = model(
        "y = my.F(x)",
        opset=20,
        domains=["my"],
        functions='<domain: "my", opset_import: ["" : 18]> F (a, s) => (b) { b = GroupNormalization(a, s, s) }',
    )
    assert opset.ceiling(of) == 20


def test_other_domains_do_not_matter() -> None:
    assert ceiling("y = my.Softmax(x)", 11, domains=["my"]) == 26  # type: ignore[arg-type]


def test_without_the_default_domain() -> None:
    of = model("y = my.Op(x)", domains=["my"])
    del of.opset_imports[""]
    assert opset.ceiling(of) == 26
    opset.raise_to(of, 0)
    assert of.opset_imports == {"my": 1}


def test_raises_functions_with_the_model() -> None:
    own = '<domain: "my", opset_import: ["" : 18]> F (a) => (b) { b = Relu(a) }'
    of = model("t = my.F(x) y = Neg(t)", opset=20, domains=["my"], functions=own)
    before = of.clone()
    opset.raise_to(of, 23)
    assert [of.opset_imports[""], *(f.opset_imports[""] for f in of.functions.values())] == [23, 23]
    onnx.checker.check_model(ir.to_proto(of))
    assert_same_function(before, of)


def test_never_lowers() -> None:
    of = model("y = Relu(x)", opset=24)
    opset.raise_to(of, 20)
    assert of.opset_imports[""] == 24


def test_another_name_of_the_default_domain() -> None:
    of = model("y = Relu(x)", opset=24)
    of.opset_imports["ai.onnx"] = of.opset_imports.pop("")
    opset.normalise(of)
    assert of.opset_imports == {"": 24}


@pytest.mark.parametrize(
    ("operator", "version"), [("Gelu", 20), ("Swish", 24), ("RMSNormalization", 23), ("LayerNormalization", 17)]
)
def test_introduced(operator: str, version: int) -> None:
    assert opset.introduced(operator) == version


def test_vendors_operators_need_no_opset() -> None:
    assert opset.introduced("com.microsoft::QuickGelu") == 0
    assert opset.introduced("QuickGelu") == 0


@pytest.mark.parametrize(
    "body",
    [
        "y = Bernoulli(x)",
        "y = GlobalLpPool(x)",
        "y = MaxRoiPool<pooled_shape = [1,1]>(x, regions)",
        "r = Flatten(x) y = Multinomial(r)",
        "y = RandomNormal<shape = [2]>()",
        "y = RandomNormalLike(x)",
        "y = RandomUniform<shape = [2]>()",
        "y = RandomUniformLike(x)",
        "y = RoiAlign(x, rois, indices)",
    ],
)
def test_operators_without_kernel_are_still_without(body: str) -> None:
    """When this fails, onnxruntime has got the kernel, and the entry in ``opset`` can go."""
    constants = "float[1,5] regions = {0,0,0,1,1}, float[1,4] rois = {0,0,1,1}, int64[1] indices = {0}"
    for version, loads in ((21, True), (22, False)):
        of = model(body, constants, inputs="float[1,1,4,4] x", outputs="y", opset=version)
        try:
            onnxruntime.InferenceSession(
                ir.to_proto(of).SerializeToString(),
                NO_OPTIMIZER.session_options(1),
                providers=["CPUExecutionProvider"],
            )
        except onnxruntime.capi.onnxruntime_pybind11_state.NotImplemented:
            assert not loads
        else:
            assert loads
        assert opset.ceiling(of) == (21 if loads else 26)
