"""The contract of the nodes of the domain ``ai.ffn_export``: their names, inputs and attributes.

``docs/functions.md`` says what they compute, and the kernels of ``native/`` read the same contract
(``native/src/provider/contract.h``). The outliner writes these nodes, :mod:`.node_bodies` writes their bodies, and the
inliner replaces them by their bodies.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import onnx_ir as ir

DOMAIN = "ai.ffn_export"
VERSION = 2

Attribute = int | float | str | tuple[int, ...]

# Attributes that a build adds: the outliner writes none of them.
PRECISION = "precision"
SMOOTHING = "smoothing"
HIDDEN_SMOOTHING = "hidden_smoothing"

_SURROUNDINGS = ("residual", "norm_scale", "norm_bias")


@dataclass(frozen=True)
class Kind:
    """A kind of node.

    Attributes:
        name: Name of its operator. A second structure in one model is called ``NAME_2``, and so on.
        inputs: Names of its inputs. One that is left out is an empty name, or is not there if it would be the last.
        attributes: Names of its attributes. Each that applies is stated on the node, also if it has its default.
    """

    name: str
    inputs: tuple[str, ...]
    attributes: tuple[str, ...]


FEED_FORWARD = Kind(
    "FeedForward",
    ("x", "w1", "b1", "w2", "b2", "w3", "b3", *_SURROUNDINGS),
    ("activation", "alpha", "packed", "transposed", "norm", "epsilon", PRECISION, SMOOTHING, HIDDEN_SMOOTHING),
)
LINEAR = Kind(
    "Linear", ("x", "w", "b", *_SURROUNDINGS), ("transposed", "norm", "epsilon", "splits", PRECISION, SMOOTHING)
)
ATTENTION = Kind("Attention", ("query", "key", "value", "bias"), ("num_heads", "kv_num_heads", "scale", "causal"))
KINDS: Mapping[str, Kind] = {kind.name: kind for kind in (FEED_FORWARD, LINEAR, ATTENTION)}


def input_of(node: ir.Node, name: str) -> ir.Value | None:
    """Return an input of a node by its name in the contract; None where it is left out or the kind has none."""
    kind = kind_of(node.op_type)
    place = kind.inputs.index(name) if kind is not None and name in kind.inputs else len(node.inputs)
    return node.inputs[place] if place < len(node.inputs) else None


def state(model: ir.Model, node: ir.Node, attribute: ir.Attr) -> None:
    """Give a node an attribute, and declare it in the node's function."""
    node.attributes[attribute.name] = attribute
    function = model.functions[node.op_identifier()]
    if attribute.name not in function.attributes:
        function.attributes[attribute.name] = ir.Attr(attribute.name, attribute.type, None)


def kind_of(operator: str) -> Kind | None:
    """Return the kind of an operator of our domain, whose structure may have a number; None if it has none."""
    name, _, number = operator.partition("_")
    return KINDS.get(name) if not number or number.isdecimal() else None


def nodes_with(model: ir.Model, attribute: str) -> list[ir.Node]:
    """Return the nodes of a model whose kinds have an attribute."""
    ours = [(node, kind_of(node.op_type)) for node in model.graph.all_nodes() if node.domain == DOMAIN]
    return [node for node, kind in ours if kind is not None and attribute in kind.attributes]


@dataclass(frozen=True)
class Call:
    """One node of the contract, and what it takes the place of.

    Attributes:
        kind: Its kind.
        inputs: Name of an input -> its value, for those that are given.
        attributes: Its attributes.
        outputs: The values that it computes.
        replaced: The nodes that it replaces, in topological order; it stands where the last one did.
        head_size: Size of a head of an attention, which its body needs.
    """

    kind: Kind
    inputs: Mapping[str, ir.Value]
    attributes: Mapping[str, Attribute]
    outputs: tuple[ir.Value, ...]
    replaced: tuple[ir.Node, ...]
    head_size: int = 0

    @property
    def arity(self) -> int:
        """Number of inputs up to the last that is given."""
        return 1 + max(self.kind.inputs.index(name) for name in self.inputs)
