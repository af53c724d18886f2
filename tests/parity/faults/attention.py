"""Attention: its scale, its masks, its heads, its positions."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx_ir as ir
from torch import nn

from tests.parity.faults import modules
from tests.parity.faults.edit import Editor, array_of, behind, node_of, nodes_of, reader, stored
from tests.parity.faults.fault import Fault, bound

ON = ("decoder",)


def _scale(model: ir.Model, change: Callable[[float], float]) -> None:
    """Change what the scores of the first layer are divided by."""
    node = node_of(model, "Div")
    divisor = node.inputs[1]
    old = array_of(divisor)
    node.replace_input_with(1, Editor(model).number(change(float(old))))


def _score_bias(model: ir.Model, change: Callable[[Editor, ir.Value], ir.Value]) -> None:
    """Change what is added to the scores."""
    behind(model, node_of(model, "Where").outputs[0], change)


def _not_causal(model: ir.Model) -> None:
    padding = node_of(model, "And").inputs[1]
    assert padding is not None
    behind(model, node_of(model, "And").outputs[0], lambda edit, _: edit.Identity(padding))


def _padding_seen(model: ir.Model) -> None:
    causal = node_of(model, "And").inputs[0]
    assert causal is not None
    behind(model, node_of(model, "And").outputs[0], lambda edit, _: edit.Identity(causal))


def _padding_inverted(model: ir.Model) -> None:
    behind(model, node_of(model, "Greater").outputs[0], lambda edit, seen: edit.Not(seen))


def _sees_next(model: ir.Model) -> None:
    """Compare each position with the one before: a token sees the next."""
    node = node_of(model, "GreaterOrEqual")
    position = node.inputs[1]
    assert position is not None
    node.replace_input_with(1, Editor(model).Sub(position, Editor(model).whole(1)))
    model.graph.sort()


def _causal_at_first(model: ir.Model, length: int) -> None:
    """Keep the causal mask for the first tokens only, as a constant baked at the example's length would."""
    node = node_of(model, "GreaterOrEqual")
    row = node.inputs[0]
    assert row is not None

    def baked(edit: Editor, causal: ir.Value) -> ir.Value:
        return edit.Or(causal, edit.GreaterOrEqual(row, edit.whole(length)))

    behind(model, node.outputs[0], baked)


def _positions_end(model: ir.Model, length: int) -> None:
    """Give every later token the last of the first positions."""
    gather = next(node for node in nodes_of(model, "Gather") if _is_position_table(node))
    position = gather.inputs[1]
    assert position is not None
    edit = Editor(model)
    gather.replace_input_with(1, edit.Min(position, edit.weight(np.array(length - 1, np.int64))))
    model.graph.sort()


def _is_position_table(node: ir.Node) -> bool:
    return node.inputs[0] is not None and node.inputs[0].name == "positions.weight"


def _positions_from_one(model: ir.Model) -> None:
    gather = next(node for node in nodes_of(model, "Gather") if _is_position_table(node))
    position = gather.inputs[1]
    assert position is not None
    edit = Editor(model)
    following = edit.Min(edit.Add(position, edit.weight(np.array(1))), edit.weight(np.array(modules.LONGEST - 1)))
    gather.replace_input_with(1, following)
    model.graph.sort()


def _softmax_over_queries(model: ir.Model) -> None:
    node_of(model, "Softmax").attributes["axis"] = ir.AttrInt64("axis", -2)


def _head_dropped(model: ir.Model) -> None:
    """Multiply one head's result by zero."""
    mixed = reader(nodes_of(model, "Softmax")[0]).outputs[0]
    kept = np.ones((1, modules.HEADS, 1, 1), np.float32)
    kept[0, 2] = 0
    behind(model, mixed, lambda edit, y: edit.Mul(y, edit.weight(kept)))


def _heads_merged_wrongly(model: ir.Model) -> None:
    """Merge heads as they lie, without bringing each token's together first."""
    softmax = nodes_of(model, "Softmax")[0]
    transposed = reader(reader(softmax))
    assert transposed.op_type == "Transpose"
    heads = transposed.inputs[0]
    assert heads is not None

    def as_they_lie(edit: Editor, right: ir.Value) -> ir.Value:
        return edit.Reshape(heads, edit.Shape(right))

    behind(model, transposed.outputs[0], as_they_lie)


def _masked_by_ten(model: ir.Model) -> None:
    where = node_of(model, "Where")
    masked = where.inputs[2]
    assert masked is not None
    stored(masked, np.full_like(array_of(masked), -10))


def _over_the_batch(module: nn.Module) -> None:
    """Attend over the batch: the layers were made for [seq, batch, width]."""
    for layer in module.modules():
        if isinstance(layer, nn.MultiheadAttention):
            layer.batch_first = False


FAULTS = (
    Fault(
        "scale-missing",
        "scores that are not divided by the root of the head's width",
        ON,
        (bound(),),
        lambda m: _scale(m, lambda _: 1),
    ),
    Fault(
        "scale-of-model",
        "the root of the model's width for that of the head's",
        ON,
        (bound(),),
        lambda m: _scale(m, lambda s: s * modules.HEADS**0.5),
    ),
    Fault("causal-mask-missing", "no causal mask", ON, (bound(),), _not_causal),
    Fault("causal-mask-off-by-one", "a token that sees the next one", ON, (bound(),), _sees_next),
    Fault(
        "causal-mask-baked",
        "a causal mask for the first eight tokens only",
        ON,
        (bound(seq=257),),
        lambda m: _causal_at_first(m, 8),
    ),
    Fault("mask-too-small", "-10 added to masked scores for -1e9", ON, (bound(),), _masked_by_ten),
    Fault("padding-seen", "a padding mask that is ignored", ON, (bound(),), _padding_seen),
    Fault("padding-inverted", "a padding mask that is inverted", ON, (bound(),), _padding_inverted),
    Fault("softmax-axis", "softmax over the queries", ON, (bound(),), _softmax_over_queries),
    Fault("head-dropped", "the result of one head zeroed", ON, (bound(),), _head_dropped),
    Fault("heads-merged-wrongly", "heads merged without their transpose", ON, (bound(),), _heads_merged_wrongly),
    Fault("positions-from-one", "positions that count from one", ON, (bound(),), _positions_from_one),
    Fault(
        "positions-end-at-100",
        "one position for all tokens from the hundredth on",
        ON,
        (bound(seq=257),),
        lambda m: _positions_end(m, 100),
    ),
    Fault(
        "positions-end-at-300",
        "one position for all tokens from the three hundredth on",
        ON,
        (bound(seq=512),),
        lambda m: _positions_end(m, 300),
    ),
    Fault(
        "attention-over-batch",
        "batch and sequence exchanged in attention",
        ("encoder",),
        (bound(),),
        module=_over_the_batch,
    ),
)
