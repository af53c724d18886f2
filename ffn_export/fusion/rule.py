"""Base class of the rules: a rule recognises one function in any spelling and writes one form of it.

``match`` takes the node that would end the function and reads the graph backwards from it. It returns one of:

1. :class:`Match`: the nodes to replace, with the closure that writes the replacement. Nothing is kept on ``self``.
2. :class:`Refused`: the reason why the site must be left alone.
3. None: the node does not end this function.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import onnx_ir as ir

from ffn_export.fusion.builder import Builder
from ffn_export.fusion.report import SiteKind

Operator = tuple[str, str]


@dataclass(frozen=True)
class Match:
    """Nodes that a rule can replace.

    Attributes:
        nodes: Nodes to replace. Safety refuses the match if another node reads a value between them.
        outputs: Values that the replacement computes, in the order that ``write`` returns them.
        write: Function that writes the replacement.
    """

    nodes: tuple[ir.Node, ...]
    outputs: tuple[ir.Value, ...]
    write: Callable[[Builder], Sequence[ir.Value]]


@dataclass(frozen=True)
class Refused:
    """A function that was recognised, or nearly so, and must be left alone.

    Attributes:
        reason: Reason, in words for the report.
        nodes: Nodes that are left.
        at: Node that prevents the match, if it is not the last one.
    """

    reason: str
    nodes: tuple[ir.Node, ...]
    at: ir.Node | None = None


Found = Match | Refused | None


class Rule(ABC):
    """Rewrites every spelling of one function as one operator.

    Attributes:
        name: Name in reports: the class name in kebab case.
        site: Kind of site that a refusal is reported as.
        writes: Operator that it writes, ``domain::Name`` for a vendor's; None if it keeps the operators of the graph.
        ends: Operators that may end a match, as ``(domain, name)``.
    """

    name: ClassVar[str]
    site: ClassVar[SiteKind]
    writes: ClassVar[str | None]
    ends: ClassVar[frozenset[Operator]]

    def __init_subclass__(cls) -> None:
        cls.name = "".join(f"-{c.lower()}" if c.isupper() and i else c.lower() for i, c in enumerate(cls.__name__))

    @abstractmethod
    def match(self, node: ir.Node) -> Found:
        """Read backwards from the node that would end a match."""


def replacing(nodes: Sequence[ir.Node], output: ir.Value, write: Callable[..., ir.Value], *arguments: object) -> Match:
    """Return a match that replaces one value by ``write(op, *arguments)``."""
    return Match(tuple(nodes), (output,), lambda op: [write(op, *arguments)])


def standard(*names: str) -> frozenset[Operator]:
    """Return operators of the standard domain."""
    return frozenset(("", name) for name in names)
