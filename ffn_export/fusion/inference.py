"""Gives values proven shapes, for as long as rules ask for them.

While a graph is rewritten, the shape of a value is what :mod:`ffn_export.fusion.shape_proofs` proves, and no more:
sizes that hold for some inputs only, as a tool that guesses may have written into the file, are set aside. Sizes that
are not numbers have names, so that two values can be seen to share them. :meth:`Stated.restore` gives every value
back what the model itself states of it.
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
    """The size of an axis that is another one wherever an element-wise operator reads both.

    Attributes:
        partner: Name of the other size.
    """

    __slots__ = ("partner",)

    def __init__(self, name: str, partner: str) -> None:
        super().__init__(name)
        self.partner = partner


@dataclass(frozen=True)
class Stated:
    """What a model states of its values: of each value, and of each name where several nodes could take its place."""

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
        """Give each value of a model its stated shape back.

        Of a value that the model did not have, such as one within a loop that a rule wrote, what is proven stays, with
        the names of the model's own axes alone. So it does of a value that was renamed as it grew, if the model stated
        a shape of it.
        """
        for value in _values(model):
            name = str(value.name)  # of a value that holds something else now there is another
            if value in self.shapes and name in self._by_name:
                value.shape, value.type = self.shapes[value], self.types[value]
            elif name in self._by_name or self.shapes.get(value, _NEW) is None:
                value.shape = self._by_name.get(name)
            elif value.shape is not None:
                value.shape = ir.Shape([dim if self._is_own(dim) else None for dim in value.shape])

    def _is_own(self, dim: int | ir.SymbolicDim) -> bool:
        return isinstance(dim, int) or dim.value in self._axes


def prove_shapes(model: ir.Model, stated: Stated | None = None) -> Stated:
    """Set the shape of each computed value to what is proven of it, and the dtypes that are missing.

    Sizes of inputs that lack a name get one. A shape that is not proven is None, and a size of it has no name.

    Args:
        model: The model; its values are changed in place, to be restored by what is returned.
        stated: What an earlier call returned for the same model.

    Returns:
        What the model states itself.
    """
    stated = Stated.of(model) if stated is None else stated
    proof = Proof(model, stated.shapes)
    names = _Names(proof)
    for value in _values(model):
        value.shape = names.shape(proof.facts.shapes.get(value))
    return stated


class _Names:
    """Names of sizes: those of symbols as they are, and of other sizes their polynomials."""

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
            name = f"({name})"  # an axis of the model has this very name and may be another size
        return ir.SymbolicDim(name)


def _values(model: ir.Model) -> Iterator[ir.Value]:
    yield from model.graph.inputs
    for graph in model.graph.subgraphs():
        yield from graph.inputs
    for node in model.graph.all_nodes():
        yield from node.outputs
