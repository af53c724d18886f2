"""The work of fusing grows with the graph, and not faster: calls are counted, which no busy machine changes."""

from __future__ import annotations

from collections.abc import Callable
from cProfile import Profile
from itertools import pairwise

import onnx_ir as ir
import pytest

from ffn_export.fusion.pipeline import rewrite
from tests.fusion.graphs import model

# Per layer of the chain: what it writes from ``{x}`` to ``{y}``.
CHAINS = {
    "element-wise": "{y} = Mul({x}, two)",
    "sums of one value": "{y} = Add({x}, x)",
    "norms": "{y} = LayerNormalization({x}, row)",
    "residual norms": "{y}s = Add({x}, x) {y} = RMSNormalization({y}s, row)",
    "norms in pieces": """{y}m = ReduceMean<keepdims = 1>({x}, last) {y}c = Sub({x}, {y}m) {y}q = Mul({y}c, {y}c)
                          {y}v = ReduceMean<keepdims = 1>({y}q, last) {y}e = Add({y}v, two) {y}d = Sqrt({y}e)
                          {y} = Div({y}c, {y}d)""",
    "feed-forwards": "{y}h = MatMul({x}, up) {y}a = Relu({y}h) {y}o = MatMul({y}a, down) {y} = Add({y}o, {x})",
    "sigmoids": "{y}s = Sigmoid({x}) {y} = Mul({x}, {y}s)",
    "reshapes": "{y}s = Shape({x}) {y} = Reshape({x}, {y}s)",
}
WEIGHTS = ", ".join(
    f"{dtype}[{shape}] {name} = {{{','.join(['1'] * size)}}}"
    for dtype, name, shape, size in [
        ("float", "two", "1", 1),
        ("float", "row", "8", 8),
        ("float", "up", "8,4", 32),
        ("float", "down", "4,8", 32),
    ]
)


def chain(layer: str, count: int) -> ir.Model:
    """Return a layer ``count`` times, one after the other."""
    names = ["x", *(f"v{index}" for index in range(count - 1)), "y"]
    body = " ".join(layer.format(x=x, y=y) for x, y in pairwise(names))
    return model(body, f"{WEIGHTS}, int64[1] last = {{-1}}")


def calls_of(function: Callable[[], object]) -> int:
    """Return how many functions of this project and of onnx-ir a function calls."""
    profile = Profile(builtins=False)
    profile.runcall(function)
    codes = ((each.code, each.callcount) for each in profile.getstats() if not isinstance(each.code, str))
    return sum(count for code, count in codes if any(name in code.co_filename for name in ("ffn_export", "onnx_ir")))


@pytest.mark.slow
@pytest.mark.parametrize("layer", CHAINS)
def test_work_grows_with_the_length_of_a_chain(layer: str) -> None:
    short, long = (chain(CHAINS[layer], count) for count in (40, 160))
    first, second = (calls_of(lambda each=each: rewrite(each, "ort")) for each in (short, long))  # type: ignore[misc]
    assert first > 40
    assert second <= 4.4 * first
