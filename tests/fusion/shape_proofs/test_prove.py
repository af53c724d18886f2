"""What is proven of a shape holds for every size with which the graph runs."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
import pytest
from onnx.reference import ReferenceEvaluator

from ffn_export.fusion.shape_proofs.facts import Facts
from ffn_export.fusion.shape_proofs.prove import Proof
from ffn_export.fusion.shape_proofs.size import Size
from tests.fusion.shape_proofs.drawn import INPUTS, Drawing

SIZES = [{"a": a, "b": b, "c": 2} for a, b in product(range(8), range(8))]


def values(size: Size, bound: Mapping[str, int]) -> int | None:
    """Return what a polynomial is, or None where a symbol has no size yet."""
    if any(symbol not in bound for monomial, _ in size.terms for symbol in monomial):
        return None
    return sum(factor * math.prod(bound[symbol] for symbol in monomial) for monomial, factor in size.terms)


def check(facts: Facts, actual: Mapping[ir.Value, np.ndarray[Any, Any]], sizes: Mapping[str, int]) -> None:
    """Hold every rank, number, equality, partner and bound against what came out."""
    pairs = []
    for value, array in actual.items():
        shape = facts.shapes.get(value)
        if shape is None:
            continue
        assert len(shape) == array.ndim, (value.name, shape, array.shape)
        pairs += [(value.name, size, real) for size, real in zip(shape, array.shape, strict=True)]
    bound = bound_symbols(facts, [(size, real) for _, size, real in pairs], sizes)
    for name, size, real in pairs:
        claimed = values(size, bound)
        assert claimed in (None, real), f"{name}: {size} is {claimed} at {sizes}, and {real} came out"
    for symbol, partner in facts.partners.items():
        own, other = bound.get(symbol), values(partner.size, bound)
        if own is not None and other is not None:
            apart = (own >= 2 and other != 1) or (partner.unless_zero and other == 0)
            assert own == other or apart, f"{symbol} = {own}, {partner} = {other} at {sizes}"
    for size, least in facts.bounds.items():
        number = values(size, bound)
        assert number is None or number >= least, f"{size} is {number} at {sizes}"
    for value, contents in facts.contents.items():
        if value in actual:
            claims = [None if each is None else values(each, bound) for each in contents]
            real_contents = actual[value].reshape(-1).astype(np.int64).tolist()
            assert len(claims) == len(real_contents), value.name
            assert all(c in (None, r) for c, r in zip(claims, real_contents, strict=True)), (value.name, contents)


def bound_symbols(facts: Facts, pairs: Sequence[tuple[Size, int]], sizes: Mapping[str, int]) -> dict[str, int]:
    """Return the size of each symbol: of an axis, of a quotient, or of the first value that has it."""
    bound = dict(sizes)
    for _ in range(3):
        for symbol, (size, by) in facts.floors.items():
            number = values(size, bound)
            if number is not None:
                bound[symbol] = number // by
        for size, real in pairs:
            symbol, constant = size.symbol_and_constant()
            if symbol and not constant:
                bound.setdefault(symbol, real)
    return bound


def session_of(proto: onnx.ModelProto) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])


def feeds(sizes: Mapping[str, int]) -> dict[str, np.ndarray[Any, Any]]:
    rng = np.random.default_rng(0)
    shapes = {name: [sizes[d] if isinstance(d, str) else d for d in dims] for name, dims in INPUTS.items()}
    return {name: rng.random(shape).astype(np.float32) for name, shape in shapes.items()}


def drawn(seed: int, nodes: int = 6) -> onnx.ModelProto:
    """Draw a graph that runs at some sizes: a step with which it does not is taken back."""
    rng = np.random.default_rng(seed)
    drawing = Drawing(rng)
    tried = [{"a": 2, "b": 3, "c": 2}, {"a": 4, "b": 4, "c": 2}, {"a": 3, "b": 1, "c": 2}]
    for _ in range(6 * nodes):
        before = list(drawing.nodes), list(drawing.constants), list(drawing.floats), list(drawing.shapes)
        drawing.step()
        results = next((found for sizes in tried if (found := runs(drawing.model(), sizes)) is not None), None)
        if results is None:
            drawing.nodes, drawing.constants, drawing.floats, drawing.shapes = before
        else:
            names = [name for node in drawing.nodes for name in node.output]
            drawing.ranks.update({name: array.ndim for name, array in zip(names, results, strict=True)})
        if len(drawing.floats) > nodes + len(INPUTS):
            break
    return drawing.model()


def runs(proto: onnx.ModelProto, sizes: Mapping[str, int]) -> list[np.ndarray[Any, Any]] | None:
    try:
        return list(session_of(proto).run(None, feeds(sizes)))
    except Exception:  # noqa: BLE001 - sizes that this graph does not take
        return None


def evaluated(proto: onnx.ModelProto, sizes: Mapping[str, int]) -> list[np.ndarray[Any, Any]] | None:
    try:
        return list(ReferenceEvaluator(proto).run(None, feeds(sizes)))
    except Exception:  # noqa: BLE001 - the standard refuses these sizes
        return None


def outcomes(proto: onnx.ModelProto) -> Iterator[tuple[dict[str, int], list[np.ndarray[Any, Any]]]]:
    session = session_of(proto)
    # ONNX Runtime's Einsum ends the process on some empty inputs.
    least = 1 if any(node.op_type == "Einsum" for node in proto.graph.node) else 0
    for sizes in (each for each in SIZES if min(each.values()) >= least):
        try:
            yield sizes, list(session.run(None, feeds(sizes)))
        except Exception:  # noqa: BLE001 - as above
            continue


def hold(seed: int) -> int:
    """Check one graph at all sizes, and return with how many it ran."""
    proto = drawn(seed)
    model = ir.from_proto(proto)
    facts = Proof(model, {}).facts
    count = 0
    for sizes, results in outcomes(proto):
        try:
            check(facts, dict(zip(model.graph.outputs, results, strict=True)), sizes)
        except AssertionError:
            # Of empty tensors, ONNX Runtime's reductions keep axes that the standard drops, and its Concat joins what
            # the standard refuses: ask the standard.
            by_standard = evaluated(proto, sizes)
            if by_standard is None:
                continue
            check(facts, dict(zip(model.graph.outputs, by_standard, strict=True)), sizes)
        count += 1
    return count


@pytest.mark.parametrize("first", range(0, 40, 20))
def test_everything_that_is_proven_comes_out(first: int) -> None:
    assert sum(hold(seed) for seed in range(first, first + 20)) > 20 * 8


@pytest.mark.exhaustive
@pytest.mark.parametrize("first", range(1000, 3000, 50))
def test_everything_that_is_proven_of_more_graphs_comes_out(first: int) -> None:
    assert sum(hold(seed) for seed in range(first, first + 50)) > 50 * 8
