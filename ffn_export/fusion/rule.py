"""The base of every rule: it recognises one function in any of its spellings, and writes one form of it.

A rule looks at the node that would end a match and reads the graph backwards from there. What it finds
is a :class:`Match`, complete with the closure that writes the replacement, so nothing is kept on
``self`` in between; or the reason why the site must be left alone; or nothing.
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
        nodes: What is replaced. A value inside that somebody else reads makes the gate refuse the match.
        outputs: The values that the replacement produces anew, in the order that ``write`` returns them.
        write: Builds the replacement.
    """

    nodes: tuple[ir.Node, ...]
    outputs: tuple[ir.Value, ...]
    write: Callable[[Builder], Sequence[ir.Value]]


@dataclass(frozen=True)
class Refused:
    """The function was recognised, or nearly so, and must be left alone.

    Attributes:
        reason: Why, in words for the report.
        nodes: The nodes that are left.
        at: The node that stands in the way, where it is not the one that ends them.
    """

    reason: str
    nodes: tuple[ir.Node, ...]
    at: ir.Node | None = None


Found = Match | Refused | None


class Rule(ABC):
    """One rewriting of the spellings of one function into one operator.

    Attributes:
        name: How reports call the rule: its class name in kebab case.
        site: Kind of the site that a refusal of this rule is reported as.
        writes: The operator that it writes, ``domain::Name`` for a vendor's; None where it only keeps
            operators that are there.
        ends: The operators that may end a match, as ``(domain, name)``.
        replaces: The operators that an open form makes one, as the table of costs names them; empty where the table
            cannot tell the two apart, and only tuning can.
        costs_as: What the table calls the operator that it writes.
        reshapes: Whether it puts reshapes around what it writes, of which the table knows nothing.
        undoes: Name of the open rule that it is the reverse of.
    """

    name: ClassVar[str]
    site: ClassVar[SiteKind]
    writes: ClassVar[str | None]
    ends: ClassVar[frozenset[Operator]]
    replaces: ClassVar[tuple[str, ...]] = ()
    costs_as: ClassVar[str] = ""
    reshapes: ClassVar[bool] = False
    undoes: ClassVar[str | None] = None

    def __init_subclass__(cls) -> None:
        cls.name = "".join(f"-{c.lower()}" if c.isupper() and i else c.lower() for i, c in enumerate(cls.__name__))

    @abstractmethod
    def match(self, node: ir.Node) -> Found:
        """Read backwards from the node that would end a match."""


def replacing(nodes: Sequence[ir.Node], output: ir.Value, write: Callable[..., ir.Value], *arguments: object) -> Match:
    """Return the match that computes one value anew, by ``write(op, *arguments)``."""
    return Match(tuple(nodes), (output,), lambda op: [write(op, *arguments)])


def standard(*names: str) -> frozenset[Operator]:
    """Return operators of the standard domain."""
    return frozenset(("", name) for name in names)
