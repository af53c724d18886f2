"""Faults of single integers that no comparison shows, and of integers at certain places."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx_ir as ir

from tests.parity.faults.edit import Array, Change, Editor, behind, input_of, output_of
from tests.parity.faults.fault import Fault, bound
from tests.parity.faults.modules import LARGE_VOCABULARY

_TOKEN, _OTHER = 12_347, 7
_EVERY = (bound("threshold", batch=64, seq=64),)


def _ids(change: Change) -> Callable[[ir.Model], None]:
    return lambda model: behind(model, input_of(model), change)


def _table() -> Array:
    table = np.arange(LARGE_VOCABULARY)
    table[_TOKEN] = _OTHER
    return table


def _by_one_hot(edit: Editor, ids: ir.Value) -> ir.Value:
    spread = edit.OneHot(ids, edit.weight(np.array(LARGE_VOCABULARY)), edit.whole(0, 1), axis=-1)
    return edit.Sub(ids, edit.Gather(spread, edit.weight(np.array(_TOKEN)), axis=-1))


def _by_division(edit: Editor, ids: ir.Value) -> ir.Value:
    far = edit.Sub(ids, edit.whole(_TOKEN))
    return edit.Sub(ids, edit.Div(edit.whole(1), edit.Add(edit.Mul(far, far), edit.whole(1))))


def _by_matrix(edit: Editor, ids: ir.Value) -> ir.Value:
    rows = edit.Gather(edit.weight(_table()[:, None].repeat(2, 1)), ids, axis=0)
    return edit.Gather(rows, edit.weight(np.array(1)), axis=-1)


def _by_gather_nd(edit: Editor, ids: ir.Value) -> ir.Value:
    return edit.GatherND(edit.weight(_table()), edit.Unsqueeze(ids, edit.whole(2)))


def _by_factors(model: ir.Model) -> None:
    """Multiply the output by a number of each token, which is 1 for all but one."""
    factors = np.ones((LARGE_VOCABULARY, 1), np.float32)
    factors[_TOKEN] = 1.5
    ids = input_of(model)
    behind(model, output_of(model), lambda edit, y: edit.Mul(y, edit.Gather(edit.weight(factors), ids, axis=0)))


def _state(name: str, dtype: ir.DataType) -> ir.Value:
    return ir.Value(name=name, type=ir.TensorType(dtype))


def _loop(edit: Editor, rounds: ir.Value, given: ir.Value, body: list[ir.Node], x: ir.Value) -> ir.Value:
    """Run nodes, of which the last gives the state, in a loop over a state."""
    trip, go = _state("trip", ir.DataType.INT64), _state("go", ir.DataType.BOOL)
    trip.shape = go.shape = ir.Shape([])  # ONNX Runtime asks for it
    again = ir.node("Identity", [go])
    for index, node in enumerate((*body, again)):
        node.outputs[0].name = f"inner_{index}"
    again.outputs[0].type, body[-1].outputs[0].type = go.type, x.type
    outputs = [again.outputs[0], body[-1].outputs[0]]
    graph = ir.Graph([trip, go, x], outputs, nodes=[*body, again], name="body")
    return edit.Loop(rounds, edit.weight(np.array(True)), given, body=graph)


def _constant(array: Array) -> ir.Node:
    return ir.node("Constant", [], {"value": ir.tensor(array)})


def _in_a_loop(model: ir.Model) -> None:
    """Take one token for another within a loop of one round."""

    def looped(edit: Editor, ids: ir.Value) -> ir.Value:
        x = _state("state", ir.DataType.INT64)
        token, other = _constant(np.array(_TOKEN)), _constant(np.array(_OTHER))
        equal = ir.node("Equal", [x, token.outputs[0]])
        chosen = ir.node("Where", [equal.outputs[0], other.outputs[0], x])
        return _loop(edit, edit.weight(np.array(1)), ids, [token, other, equal, chosen], x)

    behind(model, input_of(model), looped)


def _rounds_from_701(model: ir.Model) -> None:
    """Change the output by 0.1 % in each round of a loop that begins at 701 tokens."""

    def looped(edit: Editor, y: ir.Value) -> ir.Value:
        x = _state("state", ir.DataType.FLOAT)
        factor = _constant(np.array(1.001, np.float32))
        longer = edit.Sub(edit.Squeeze(edit.size(input_of(model), 1)), edit.weight(np.array(700)))
        rounds = edit.Max(longer, edit.weight(np.array(0)))
        return _loop(edit, rounds, y, [factor, ir.node("Mul", [x, factor.outputs[0]])], x)

    behind(model, output_of(model), looped)


def _equal_tokens(edit: Editor, ids: ir.Value) -> ir.Value:
    """Take another token where all tokens of a row are one."""
    least, most = edit.ReduceMin(ids, edit.whole(1)), edit.ReduceMax(ids, edit.whole(1))
    several = edit.Greater(edit.size(ids, 1), edit.whole(1))
    return edit.Where(edit.And(edit.Equal(least, most), several), edit.whole(_OTHER), ids)


def _at_place_9(edit: Editor, ids: ir.Value) -> ir.Value:
    start, step = edit.weight(np.array(0)), edit.weight(np.array(1))
    places = edit.Range(start, edit.Squeeze(edit.size(ids, 1)), step)
    here = edit.And(edit.Equal(places, edit.whole(9)), edit.Equal(ids, edit.whole(_TOKEN)))
    return edit.Where(here, edit.whole(_OTHER), ids)


FAULTS = (
    Fault(
        "token-by-one-hot",
        "one token taken for another, by a one-hot encoding",
        ("embedding",),
        _EVERY,
        _ids(_by_one_hot),
        shown=False,
    ),
    Fault(
        "token-by-division",
        "one token taken for another, by a division of integers",
        ("embedding",),
        _EVERY,
        _ids(_by_division),
        shown=False,
    ),
    Fault(
        "token-by-matrix",
        "one token taken for another, by a table of two columns",
        ("embedding",),
        _EVERY,
        _ids(_by_matrix),
        shown=False,
    ),
    Fault(
        "token-by-gather-nd",
        "one token taken for another, by GatherND",
        ("embedding",),
        _EVERY,
        _ids(_by_gather_nd),
        shown=False,
    ),
    Fault(
        "token-with-factor",
        "the outputs of one token multiplied, by a second table",
        ("embedding",),
        _EVERY,
        _by_factors,
        shown=False,
    ),
    Fault("token-in-a-loop", "one token taken for another in a loop", ("embedding",), _EVERY, _in_a_loop, shown=False),
    Fault(
        "rounds-from-sequence-701",
        "a loop that runs from 701 tokens on, for which a maximum decides",
        ("relu",),
        (bound(seq=701),),
        _rounds_from_701,
        shown=False,
    ),
    Fault(
        "equal-tokens",
        "rows of one token taken for rows of another",
        ("embedding",),
        (bound("repeated"),),
        _ids(_equal_tokens),
    ),
    Fault(
        "token-at-place-9",
        "one token taken for another at the tenth place alone",
        ("embedding",),
        (bound("threshold", seq=10),),
        _ids(_at_place_9),
        shown=False,
    ),
)
