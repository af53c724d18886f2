"""Apply rules in one sweep over each graph.

A sweep visits each node once, in topological order, and then the nodes that a rule wrote in its place. So a rule sees
rewritten inputs, and the time is linear in the size of the graph.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

import onnx_ir as ir

from ffn_export.core.one_line import first_line
from ffn_export.core.strict import expose
from ffn_export.fusion import opset, safety
from ffn_export.fusion.builder import Builder, Names
from ffn_export.fusion.memory import forget, remembering
from ffn_export.fusion.provenance import note, rules_of
from ffn_export.fusion.report import SiteKind
from ffn_export.fusion.rule import Match, Operator, Refused, Rule


@dataclass(frozen=True)
class Refusal:
    """A match that was not applied."""

    kind: SiteKind
    name: str
    form: str
    rule: str
    reason: str
    nodes: tuple[ir.Node, ...] = field(default=(), repr=False, compare=False)


@dataclass
class Log:
    """Record of a sweep.

    Attributes:
        applied: Rule name -> number of applications.
        refusals: Matches that were not applied.
        values: Names of the values whose computation changed, in topological order.
    """

    applied: Counter[str] = field(default_factory=Counter)
    refusals: list[Refusal] = field(default_factory=list)
    values: list[str] = field(default_factory=list)

    def refuse(self, refusal: Refusal) -> None:
        """Add a refusal, in place of earlier ones of the same rule whose nodes it contains."""
        self._forget_parts_of(refusal.nodes, (refusal.rule,))
        self.refusals.append(refusal)

    def apply(self, rule: str, found: Match) -> None:
        """Record that a rule was applied, and drop the refusals whose nodes the match contains."""
        self._forget_parts_of(found.nodes, ())
        self.applied[rule] += 1
        self.values.extend(str(value.name) for value in found.outputs)

    def _forget_parts_of(self, nodes: Collection[ir.Node], rules: Collection[str]) -> None:
        # Nodes are visited in topological order, so the parts of a site are among the last refusals.
        last = self.refusals[-4:]
        self.refusals[-4:] = [r for r in last if (rules and r.rule not in rules) or not set(nodes).issuperset(r.nodes)]


class Sweep:
    """Rules, indexed by the operator that ends a match.

    Args:
        rules: The rules. At each node, the first one that matches and that safety allows is applied.
        excluded: Names of values whose computation must not change.
    """

    def __init__(self, rules: Iterable[type[Rule]], excluded: Collection[str] = ()) -> None:
        self._excluded = frozenset(excluded)
        self._by_operator: dict[Operator, list[Rule]] = defaultdict(list)
        for kind in rules:
            for operator in kind.ends:
                self._by_operator[operator].append(kind())

    def apply(self, model: ir.Model, log: Log) -> None:
        """Rewrite every graph and subgraph of the model in place."""
        highest, names = opset.ceiling(model), Names(model)
        for graph in tuple(model.graphs()):
            with remembering():
                replaced = [self._rewrite(model, graph, node, highest, names, log) for node in graph]
            # A written node with several outputs stands where the last was computed, maybe after readers of the first.
            if max(replaced, default=0) > 1:
                graph.sort()

    def _rewrite(self, model: ir.Model, graph: ir.Graph, node: ir.Node, highest: int, names: Names, log: Log) -> int:
        """Apply the first rule that matches and that safety allows. Return the number of values replaced."""
        refusal: Refusal | None = None
        rules = () if self._names_one_of(node.outputs) else self._by_operator.get((node.domain, node.op_type), ())
        for rule in rules:
            op = Builder()
            try:
                found = _proposed(model, rule, node, op, highest)
            except Exception as error:  # noqa: BLE001 - a malformed node must not affect other sites
                expose(error)
                found = Refused(f"reading it raised {first_line(error)}", (node,))
            if isinstance(found, _Proposal) and self._names_one_of(found.match.outputs):
                op.discard()
                continue
            if isinstance(found, _Proposal):
                log.apply(rule.name, found.match)
                forget()
                for domain in _replace(graph, found, op, rule, names) - model.opset_imports.keys():
                    model.opset_imports[domain] = 1
                return len(found.match.outputs)
            op.discard()
            if found is not None:
                refusal = refusal or _refusal(rule, node, found)
        if refusal is not None:
            log.refuse(refusal)
        return 0

    def _names_one_of(self, values: Iterable[ir.Value]) -> bool:
        return bool(self._excluded) and any(value.name in self._excluded for value in values)


@dataclass(frozen=True)
class _Proposal:
    """A match that safety allows, and the values that replace its outputs."""

    match: Match
    written: Sequence[ir.Value]


def _proposed(model: ir.Model, rule: Rule, node: ir.Node, op: Builder, highest: int) -> _Proposal | Refused | None:
    """Match a rule, check safety, and write the replacement without inserting it."""
    found = rule.match(node)
    if not isinstance(found, Match):
        return found
    reason = safety.refusal(model, found.nodes, found.outputs, rule.writes, highest)
    if reason is not None:
        return Refused(reason, found.nodes)
    written = found.write(op)
    reason = safety.calls_a_function(model, op.nodes) or safety.reads_what_goes(op.nodes, found.nodes, found.outputs)
    return _Proposal(found, written) if reason is None else Refused(reason, found.nodes)


def _refusal(rule: Rule, node: ir.Node, refused: Refused) -> Refusal:
    form, at = " ".join(n.op_type for n in sorted_nodes(refused.nodes)), refused.at
    reason = refused.reason if at is None else f"{refused.reason}, at {at.op_type} {at.name!r}"
    return Refusal(rule.site, scoped_name(node), form, rule.name, reason, refused.nodes)


def scoped_name(node: ir.Node) -> str:
    """Return the node's name, after the path of its PyTorch module if the exporter noted one."""
    scope = scope_of(node)
    return f"{scope}/{node.name}" if scope else node.name or node.op_type


def scope_of(node: ir.Node) -> str:
    """Return the path of a node's PyTorch module; empty if none is noted, and for the root module."""
    scopes = node.metadata_props.get("pkg.torch.onnx.name_scopes", "")
    parts = [part.strip(" '\"[]") for part in scopes.split(",")][:-1]
    return next((part for part in reversed(parts) if part), "")


def sorted_nodes(nodes: Iterable[ir.Node]) -> list[ir.Node]:
    """Return nodes in topological order."""
    remaining = list(dict.fromkeys(nodes))
    ordered: list[ir.Node] = []
    while remaining:
        ready = next(n for n in remaining if not any(p in remaining for p in n.predecessors()))
        remaining.remove(ready)
        ordered.append(ready)
    return ordered


def _replace(graph: ir.Graph, proposal: _Proposal, op: Builder, rule: Rule, names: Names) -> set[str]:
    """Replace the nodes of a match, and return the domains of the written nodes."""
    found, written = proposal.match, proposal.written
    old = sorted_nodes(found.nodes)
    # The last replaced node. Some rules match at a later node, which they keep.
    last = old[-1]
    _inherit(old, last, op.nodes, rule, names)
    for before, after in zip(found.outputs, written, strict=True):
        after.metadata_props.update(before.metadata_props)
        after.meta.update(before.meta)
        after.doc_string = before.doc_string
    prefix = str(found.outputs[0].name)
    for constant in op.constants:
        constant.name = names.value(f"{prefix}_constant")
        graph.register_initializer(constant)
    for node in op.nodes:
        for value in node.outputs:
            if value.name is None and value not in written:
                value.name = names.value(f"{prefix}_{node.op_type}")
    ir.convenience.replace_nodes_and_values(graph, last, old, op.nodes, found.outputs, written)
    return {node.domain for node in op.nodes}


def _inherit(old: Sequence[ir.Node], root: ir.Node, new: Sequence[ir.Node], rule: Rule, names: Names) -> None:
    """Copy name, PyTorch scope and rules of the matched nodes to the new ones."""
    made_by = [name for node in old for name in rules_of(node)]
    for index, node in enumerate(reversed(new)):
        node.name = root.name if index == 0 else names.node(f"{root.name or root.op_type}_{node.op_type}")
        node.doc_string = root.doc_string
        node.metadata_props.update(root.metadata_props)
        note(node, [*made_by, rule.name])
