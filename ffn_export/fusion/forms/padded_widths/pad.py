"""Padded widths: feed-forward rows a multiple of 4096 bytes apart are made longer by a cache line, of 16 numbers.

Only in float32, with constant weights. Graphs are unpadded before they are fused again, quantised or bisected.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence

import onnx_ir as ir

from ffn_export.fusion import constants, sites
from ffn_export.fusion.builder import Builder, Names
from ffn_export.fusion.costs import Table
from ffn_export.fusion.engine import Log, scoped_name
from ffn_export.fusion.forms.form import Form
from ffn_export.fusion.forms.padded_widths.growing_constants import Place, Plan, read, together
from ffn_export.fusion.forms.padded_widths.remove import remove
from ffn_export.fusion.forms.padded_widths.units import RULE, SUFFIX, UNITS, Padding, note, padded
from ffn_export.fusion.provenance import note as note_rules
from ffn_export.fusion.provenance import rules_of
from ffn_export.fusion.shapes import last_size
from ffn_export.fusion.views import opset_of, producer, rank

# Smallest gain that counts: the cost of a whole product varies by less than that of another kernel.
_LEAD = 0.03
_SPLIT_BY_NUMBER = 18  # the opset from which Split needs its sizes or their number


def pad_widths(model: ir.Model, log: Log, excluded: Collection[str] = ()) -> dict[str, str]:
    """Pad feed-forwards, in place. Return, by name, those that need padding and are left, with the reasons."""
    left: dict[str, str] = {}
    plans: list[Plan] = []
    # A function that could not be inlined cannot read the weights of the main graph.
    for site in sites.feed_forwards(model):
        if site.nodes[-1].outputs[0].name in excluded:
            continue
        plan = read(site, model.opset_imports.get("", 0))
        if isinstance(plan, Plan):
            plans.append(plan)
        elif plan is not None:
            left[scoped_name(site.nodes[-1])] = plan
    alone, shared = _apart_from_shared(plans)
    for plan in shared:
        left[scoped_name(plan.site.nodes[-1])] = "a weight of it is read elsewhere too, and would be stored twice"
    log.applied.update([RULE] * len(alone))
    log.values.extend(str(plan.site.nodes[-1].outputs[0].name) for plan in alone)
    _Writer(model).write(alone)
    return left


def _apart_from_shared(plans: Sequence[Plan]) -> tuple[list[Plan], list[Plan]]:
    """Separate the plans with a matrix that another node reads without the same padding."""
    alone, shared = list(plans), list[Plan]()
    while True:
        settled = _without_clashes(alone)
        asked = together(settled)
        found = [plan.site for plan in settled if any(_is_shared(place, asked) for place in plan.constants)]
        if not found:
            return settled, shared
        shared += [plan for plan in alone if plan.site in found]
        alone = [plan for plan in alone if plan.site not in found]


def _without_clashes(plans: Sequence[Plan]) -> list[Plan]:
    """Drop the padding of inputs that are a padded hidden layer of another feed-forward, in chains of products."""
    places = (place for plan in plans for place in plan.constants.items())
    halved = {node for (node, _), paddings in places if any(each.fill == "halved" for each in paddings)}
    left = (plan.with_inputs([node for node in plan.inputs if node not in halved]) for plan in plans)
    return [plan for plan in left if plan.constants]


def _is_shared(place: Place, asked: dict[Place, tuple[Padding, ...]]) -> bool:
    value = place[0].inputs[place[1]]
    assert value is not None
    # A row is small enough to be stored twice.
    return rank(value) != 1 and (value.is_graph_output() or any(asked.get(use) != asked[place] for use in value.uses()))


def default(costs: Table | None) -> bool:
    """Whether a product of padded rows was measured to take 3 % less time."""
    known = {} if costs is None else costs.ns_per_element
    return known.get("MatMul:padded", math.inf) < (1 - _LEAD) * known.get("MatMul:aliased", 0.0)


class _Writer:
    """Writes plans into one model; a constant or input that several of them read is padded once."""

    def __init__(self, model: ir.Model) -> None:
        self._model = model
        self._names = Names(model)
        self._constants: dict[tuple[ir.Value, tuple[Padding, ...]], ir.Value] = {}
        self._inputs: dict[tuple[ir.Value, ir.Graph], ir.Value] = {}

    def write(self, plans: Sequence[Plan]) -> None:
        for (node, place), paddings in together(plans).items():
            node.replace_input_with(place, self._constant(node.inputs[place], paddings))
        for node in dict.fromkeys(node for plan in plans for node in plan.inputs):
            node.replace_input_with(0, self._input(node))
        for plan in plans:
            for value, parts in plan.wide.items():
                self._widen(value, parts)
            for node in plan.splits:
                _split_evenly(node)
            for node in plan.products:
                note_rules(node, [*rules_of(node), RULE])

    def _widen(self, value: ir.Value, parts: int) -> None:
        # It holds other numbers, so it must not be found under its old name.
        before = str(value.name)
        value.name = self._names.value(f"{before}{SUFFIX}")
        note(value, (), before)
        if (size := last_size(value)) is not None and value.shape is not None:
            value.shape = ir.Shape([*value.shape[:-1], size + parts * UNITS])

    def _constant(self, value: ir.Value | None, paddings: tuple[Padding, ...]) -> ir.Value:
        assert value is not None
        if (value, paddings) not in self._constants:
            tensor = constants.tensor_of(value)
            assert tensor is not None
            sizes = list(tensor.shape.numpy())
            for padding in paddings:
                sizes[padding.axis] += padding.added
            op = Builder()
            made = op.computed(lambda: padded(tensor.numpy(), paddings), tensor.dtype, sizes)
            note(made, paddings, str(value.name))
            self._constants[value, paddings] = self._registered(made, f"{value.name}{SUFFIX}")
        return self._constants[value, paddings]

    def _input(self, product: ir.Node) -> ir.Value:
        """Return a product's input with zeros after each row."""
        x, graph = product.inputs[0], product.graph
        assert x is not None
        assert x.shape is not None
        assert isinstance(graph, ir.Graph)
        if (x, graph) not in self._inputs:
            op = Builder()
            width = len(x.shape)
            sizes = self._registered(op.integers(*[0] * (2 * width - 1), UNITS), "padding")
            y = op.Pad(x, sizes)
            y.type = x.type
            last = x.shape[-1]
            y.shape = ir.Shape([*x.shape[:-1], last + UNITS if isinstance(last, int) else None])
            y.name = self._names.value(f"{x.name}{SUFFIX}")
            (node,) = op.nodes
            node.name = self._names.node(f"{product.name or 'product'}_Pad")
            node.metadata_props.update(product.metadata_props)
            note_rules(node, [RULE])
            made_by = producer(x, within=graph)
            if made_by is not None:
                graph.insert_after(made_by, node)
            else:  # an input of this graph, or of one around it
                graph.insert_before(graph[0], node)
            self._inputs[x, graph] = y
        return self._inputs[x, graph]

    def _registered(self, value: ir.Value, name: str) -> ir.Value:
        value.name = self._names.value(name)
        self._model.graph.register_initializer(value)
        return value


def _split_evenly(node: ir.Node) -> None:
    """Let a ``Split`` halve its input, whatever its length."""
    node.attributes.pop("split", None)
    if len(node.inputs) > 1:
        node.resize_inputs(1)
        if opset_of(node) >= _SPLIT_BY_NUMBER:
            node.attributes["num_outputs"] = ir.AttrInt64("num_outputs", 2)


PADDED_WIDTHS = Form(RULE, "feed_forward", default, apply=pad_widths, undo=remove, in_few_bits=False)
