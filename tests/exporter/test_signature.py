from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from ffn_export.errors import UsageError
from ffn_export.exporter.signature import SLOT, CallSignature, bind
from ffn_export.exporter.source import from_module
from ffn_export.exporter.traced import spec_at
from tests.exporter.helpers import module_of, refusal

pytestmark = pytest.mark.usefixtures("shell_words")


def called_with(forward: Callable[..., Any], *names: str) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Arguments of a call where each value is the name of its input."""
    return bind(forward, names).arguments({name: name for name in names})


def plain(x: Any, mask: Any = None, *, scale: Any = None) -> None: ...
def positional_only(a: Any, b: Any = None, c: Any = None, /) -> None: ...
def variadic(x: Any, *rest: Any) -> None: ...
def extra(x: Any, **rest: Any) -> None: ...
def forwards(*args: Any, **kwargs: Any) -> None: ...


@pytest.mark.parametrize(
    ("forward", "names", "arguments"),
    [
        (plain, ("x",), ((), {"x": "x"})),
        (plain, ("scale", "x"), ((), {"x": "x", "scale": "scale"})),
        (plain, ("ids",), ((), {"x": "ids"})),
        (plain, ("h", "m"), ((), {"x": "h", "mask": "m"})),
        (positional_only, ("a",), (("a",), {})),
        (positional_only, ("p", "q"), (("p", "q"), {})),
        # By name, though it is passed by position.
        (positional_only, ("b", "a"), (("a", "b"), {})),
        (variadic, ("x", "u", "v"), (("x", "u", "v"), {})),
        (variadic, ("u", "v"), (("u", "v"), {})),
        (extra, ("x", "u"), ((), {"x": "x", "u": "u"})),
        (forwards, ("x", "y"), (("x", "y"), {})),
    ],
)
def test_inputs_go_by_name_where_one_fits_else_by_position(
    forward: Callable[..., Any], names: tuple[str, ...], arguments: tuple[tuple[Any, ...], dict[str, Any]]
) -> None:
    assert called_with(forward, *names) == arguments


@pytest.mark.parametrize(
    ("forward", "names", "words"),
    [
        (plain, (), "forward needs 'x': add --input 'x:DTYPE[DIM,...]' (given: no input)"),
        (plain, ("mask",), "forward needs 'x'"),
        (plain, ("h", "msk"), "input 'msk' is no parameter of forward; did you mean 'mask'? it takes: x, mask, scale"),
        (plain, ("ids", "mask"), "input 'ids' is no parameter of forward; it takes: x, mask, scale"),
        (plain, ("mask", "ids"), "input 'ids' is no parameter of forward; it takes: x, mask, scale"),
        (plain, ("x", "y", "z"), "input 'z' fits no parameter of forward, which takes: x, mask, scale"),
        (lambda: None, ("x",), "input 'x' fits no parameter of forward, which takes: no parameter"),
        (
            plain,
            ("x", "masks"),
            "input 'masks' is no parameter of forward; did you mean 'mask'? it takes: x, mask, scale",
        ),
        # c would land in b.
        (positional_only, ("a", "c"), "forward takes 'c' by position only, after 'b': add an --input for 'b' too"),
        (extra, ("x", "layer.mask"), "input 'layer.mask' cannot be passed in **rest"),
        (extra, ("x", "class"), "input 'class' cannot be passed in **rest"),
    ],
)
def test_what_does_not_fit(forward: Callable[..., Any], names: tuple[str, ...], words: str) -> None:
    assert words in refusal(UsageError, bind, forward, names)


def test_input_order_is_the_order_of_forward() -> None:
    assert bind(plain, ["scale", "mask", "x"]).input_order == ("x", "mask", "scale")


def test_values_by_parameter() -> None:
    source = from_module(module_of(lambda self, x, *rest: x), dict.fromkeys("xuv", "float32[n]"))
    assert source.by_parameter({"x": 1, "u": 2, "v": 3}) == {"x": 1, "rest": (2, 3)}
    source = from_module(module_of(lambda self, x, **rest: x), dict.fromkeys("xu", "float32[n]"))
    with source.call.spelled_out(source.module):
        assert source.by_parameter({"x": 1, "u": 2}) == {"x": 1, "u": 2}


def test_the_input_at_a_path_of_torch() -> None:
    source = from_module(module_of(lambda self, x, *rest, **named: x), dict.fromkeys("xuv", "float32[n]"))
    assert spec_at(source, "['x']").name == "x"
    assert spec_at(source, "['rest'][1]").name == "v"
    source = from_module(module_of(lambda self, x, **named: x), dict.fromkeys("xu", "float32[n]"))
    assert spec_at(source, "['u']").name == "u"


def test_a_structure_puts_inputs_between_constants() -> None:
    _, tree = torch.utils._pytree.tree_flatten((([0, 0], None), {"k": 0}))
    call = CallSignature(("a", "b"), structure=(tree, (SLOT, 7, None, SLOT)))
    assert call.arguments({"a": "A", "b": "B"}) == ((["A", 7], None), {"k": "B"})


def test_forward_is_put_back_after_it_was_spelled_out() -> None:
    module = module_of(lambda self, x, **rest: rest)
    with bind(module.forward, ["x", "u"]).spelled_out(module):
        assert "u" in str(__import__("inspect").signature(module.forward))
        assert module(1, u=2) == {"u": 2}
    assert "forward" not in vars(module)

    def own(x: Any, **rest: Any) -> Any:
        return rest

    module.forward = own
    with bind(module.forward, ["x", "u"]).spelled_out(module):
        assert module.forward is not own
    assert module.forward is own
