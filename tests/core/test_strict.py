"""Strict mode: on in all tests, and every handler of any exception asks for it."""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator
from pathlib import Path

import onnx_ir as ir
import onnxruntime
import pytest

import ffn_export
from ffn_export.core import strict
from ffn_export.fusion import no_ops
from ffn_export.fusion.canonicalise.gelu import Gelu
from ffn_export.fusion.pipeline import fuse
from tests.fusion.feed_forwards import feed_forward

_PACKAGE = Path(ffn_export.__file__).parent
_ERF = """
    c = Constant<value_float = 1.4142135>() half = Constant<value_float = 0.5>() one = Constant<value_float = 1.0>()
    h = MatMul(x, w1) d = Div(h, c) e = Erf(d) p = Add(e, one) q = Mul(h, p) g = Mul(q, half) y = MatMul(g, w2)
"""
_FUNCTIONS = {strict.expose.__name__, strict.expose_own.__name__}


def _handlers() -> Iterator[tuple[str, ast.ExceptHandler]]:
    for path in _PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ExceptHandler):
                yield f"{path.relative_to(_PACKAGE)}:{node.lineno}", node


@pytest.mark.slow
def test_every_handler_of_any_exception_raises_or_asks() -> None:
    hiding = []
    for place, handler in _handlers():
        caught = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
        names = {each.id for each in caught if isinstance(each, ast.Name)}
        asks = any(isinstance(n, ast.Name) and n.id in _FUNCTIONS for n in ast.walk(handler))
        raises = any(isinstance(n, ast.Raise) for n in ast.walk(handler))
        if (handler.type is None or names & {"Exception", "BaseException"}) and not asks and not raises:
            hiding.append(place)
    assert hiding == []


def test_strict_mode_is_on_in_tests() -> None:
    assert os.environ[strict.VARIABLE] == "1"


def _own_fault() -> None:
    ir.convenience.get_const_tensor(None)  # type: ignore[arg-type]


def test_a_line_of_a_library_is_no_fault_of_ours() -> None:
    with pytest.raises(AttributeError) as caught:
        _own_fault()
    strict.expose_own(caught.value)
    with pytest.raises(AttributeError):
        strict.expose(caught.value)


def test_a_runtimes_refusal_is_no_fault_of_ours() -> None:
    with pytest.raises(Exception, match="INVALID_PROTOBUF") as caught:
        onnxruntime.InferenceSession(b"no model")
    strict.expose_own(caught.value)


@pytest.fixture
def broken_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    def match(self: Gelu, node: ir.Node) -> None:
        raise AssertionError(f"a fault at {node.op_type}")

    monkeypatch.setattr(Gelu, "match", match)


@pytest.fixture
def broken_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    def remove(model: ir.Model) -> None:
        model.graph.remove(model.graph[0], safe=False)
        raise KeyError("a fault in the middle")

    monkeypatch.setattr(no_ops, "remove", remove)


@pytest.mark.usefixtures("broken_rule")
def test_a_fault_in_a_rule_is_raised() -> None:
    with pytest.raises(AssertionError, match="a fault at"):
        fuse(feed_forward(_ERF))


@pytest.mark.usefixtures("broken_rule", "as_in_production")
def test_a_fault_in_a_rule_costs_a_user_its_site() -> None:
    _, report = fuse(feed_forward(_ERF))
    assert [site.status for site in report.sites] == ["refused"]
    assert "AssertionError: a fault at" in str(report.sites[0].reason)


@pytest.mark.usefixtures("broken_pass")
def test_a_fault_in_a_pass_is_raised() -> None:
    with pytest.raises(KeyError):
        fuse(feed_forward(_ERF))


@pytest.mark.usefixtures("broken_pass", "as_in_production")
def test_a_fault_in_a_pass_leaves_a_users_model_as_it_was() -> None:
    model = feed_forward(_ERF)
    fused, report = fuse(model)
    assert [node.op_type for node in fused.graph] == [node.op_type for node in model.graph]
    assert report.problem == "fusing raised KeyError: 'a fault in the middle': the model is left as it was"
    assert report.explain().startswith(report.problem)
