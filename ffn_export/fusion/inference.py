"""Set proven shapes on values while a graph is rewritten.

During a rewrite, a value has only the shape that :mod:`ffn_export.fusion.shape_proofs` proves. Shapes that the file
states are set aside, because a tool may have guessed sizes that hold for some inputs only. Sizes that are not numbers
have names, so that rules can see that two values share them. :meth:`Stated.restore` restores the stated shapes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import onnx_ir as ir

from ffn_export.fusion.shape_proofs.facts import Shape
from ffn_export.fusion.shape_proofs.prove import Proof
from ffn_export.fusion.shape_proofs.size import Size

_NEW = ir.Shape(())


class PartnerDim(ir.SymbolicDim):
    """The size of an axis that equals another size wherever an element-wise operator reads both.

    Attributes:
        partner: Name of the other size.
    """

    __slots__ = ("partner",)

    def __init__(self, name: str, partner: str) -> None:
        super().__init__(name)
        self.partner = partner


@dataclass(frozen=True)
class Stated:
    """The shapes and types that a model states, by value, and by name for values that rules replaced."""

    shapes: Mapping[ir.Value, ir.Shape | None]
    types: Mapping[ir.Value, ir.TypeProtocol | None]
    _by_name: Mapping[str, ir.Shape | None]
    _axes: frozenset[str]

    @classmethod
    def of(cls, model: ir.Model) -> Stated:
        """Read the statements off a model."""
        values = list(_values(model))
        dims = (dim for value in values for dim in value.shape or ())
        return cls(
            {value: value.shape for value in values},
            {value: value.type for value in values},
            {str(value.name): value.shape for value in values if value.name},
            frozenset(dim.value for dim in dims if isinstance(dim, ir.SymbolicDim) and dim.value),
        )

    def restore(self, model: ir.Model) -> None:
        """Restore the stated shape of each value.

        A value that the model did not have, such as one inside a loop that a rule wrote, keeps its proven shape, but
        only with symbolic axes that the model names. So does a padded value, which was renamed, if the model stated a
        shape for it.
        """
        for value in _values(model):
            name = str(value.name)  # a value whose contents changed has a new name
            if value in self.shapes and name in self._by_name:
                value.shape, value.type = self.shapes[value], self.types[value]
            elif name in self._by_name or self.shapes.get(value, _NEW) is None:
                value.shape = self._by_name.get(name)
            elif value.shape is not None:
                value.shape = ir.Shape(
                    [d if isinstance(d, int) or d.value in self._axes else None for d in value.shape]
                )


def prove_shapes(model: ir.Model, stated: Stated | None = None) -> Stated:
    """Set the shape of each computed value to its proven shape, and missing dtypes.

    Unnamed sizes of inputs get a name. A shape that is not proven is None.

    Args:
        model: The model. Its values are changed in place; :meth:`Stated.restore` of the result undoes that.
        stated: Result of an earlier call for the same model.

    Returns:
        The shapes and types that the model states.
    """
    stated = Stated.of(model) if stated is None else stated
    proof = Proof(model, stated.shapes)
    names = _Names(proof)
    for value in _values(model):
        value.shape = names.shape(proof.facts.shapes.get(value))
    return stated


class _Names:
    """Names of sizes: the name of a symbol, or the polynomial of any other size."""

    def __init__(self, proof: Proof) -> None:
        self._facts = proof.facts
        self._dims: dict[Size, int | ir.SymbolicDim] = {}

    def shape(self, shape: Shape | None) -> ir.Shape | None:
        return None if shape is None else ir.Shape([self._dim(size) for size in shape])

    def _dim(self, size: Size) -> int | ir.SymbolicDim:
        if size not in self._dims:
            self._dims[size] = self._new(size)
        return self._dims[size]

    def _new(self, size: Size) -> int | ir.SymbolicDim:
        if size.constant is not None:
            return size.constant
        name = str(size)
        partner = self._facts.partners.get(name)
        if partner is not None and not partner.unless_zero:
            return PartnerDim(name, str(self._dim(partner.size)))
        if size != Size.of(name) and name in self._facts.taken:
            name = f"({name})"  # an axis of the model has this name and may have another size
        return ir.SymbolicDim(name)


def _values(model: ir.Model) -> Iterator[ir.Value]:
    for graph in model.graphs():
        yield from graph.inputs
    for node in model.graph.all_nodes():
        yield from node.outputs
