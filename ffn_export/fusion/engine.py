"""Applies rules in one sweep over each graph.

The nodes are visited once, in the order of the data, and what a rule writes is visited next; so a
rule sees its inputs already rewritten, and the time grows with the graph, not with its square.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import onnx_ir as ir
from onnxscript.rewriter import MatchingTracer, MatchResult, MatchStatus, RewriteRule

from ffn_export.fusion import gate, opset
from ffn_export.fusion.report import SiteKind
from ffn_export.fusion.rule import Rule

RULE_KEY = "pkg.ffn_export.rule"


@dataclass(frozen=True)
class Refusal:
    """A match that was left alone."""

    kind: SiteKind
    name: str
    form: str
    rule: str
    reason: str


@dataclass
class Log:
    """What a sweep did."""

    applied: Counter[str] = field(default_factory=Counter)
    refusals: list[Refusal] = field(default_factory=list)


class _LastFailure(MatchingTracer):
    """Keeps the match that a rule's ``check`` failed, which the rewriter otherwise drops."""

    def __init__(self) -> None:
        super().__init__()
        self.failed: MatchResult | None = None

    def log(
        self,
        rule: RewriteRule,
        container: ir.Graph | ir.Function,
        node: ir.Node,
        match_result: MatchResult,
        status: MatchStatus,
    ) -> None:
        del rule, container, node
        if status is MatchStatus.CONDITION_FAILED:
            self.failed = match_result


class Sweep:
    """Rules, indexed by the operator that ends their pattern."""

    def __init__(self, rules: Iterable[type[Rule]]) -> None:
        self._by_operator: dict[tuple[str, str], list[tuple[type[Rule], RewriteRule]]] = defaultdict(list)
        for kind in rules:
            for rule in kind.rules():
                root = rule._target_pattern.output_node.op_identifier()
                assert root is not None, f"{rule.name}: the pattern does not say which operator ends it"
                self._by_operator[root[:2]].append((kind, rule))

    def apply(self, model: ir.Model, log: Log) -> None:
        """Rewrite every graph and subgraph of the model in place."""
        highest = opset.ceiling(model)
        for graph in (model.graph, *model.graph.subgraphs()):
            replaced = [self._rewrite(model, graph, node, highest, log) for node in graph]
            # A node with several outputs stands where the last of them was; who read the first may come before it.
            if max(replaced, default=0) > 1:
                graph.sort()

    def _rewrite(self, model: ir.Model, graph: ir.Graph, node: ir.Node, highest: int, log: Log) -> int:
        """Apply the first rule that matches and may; return how many values it replaced."""
        refused: Refusal | None = None
        for kind, rule in self._by_operator.get((node.domain, node.op_type), ()):
            tracer = _LastFailure()
            match = rule.match(model, graph, node, check_nodes_are_removable=False, tracer=tracer)
            if match:
                reason = gate.refusal(model, match.nodes, match.outputs, kind.writes, highest)
                if reason is None:
                    _replace(model, graph, node, rule)
                    log.applied[rule.name or kind.__name__] += 1
                    return len(match.outputs)
                refused = _refusal(kind, rule, node, match, reason)
            elif tracer.failed is not None and tracer.failed.reason:
                refused = _refusal(kind, rule, node, tracer.failed, tracer.failed.reason)
        if refused is not None:
            log.refusals.append(refused)
        return 0


def _refusal(kind: type[Rule], rule: RewriteRule, node: ir.Node, match: MatchResult, reason: str) -> Refusal:
    form = " ".join(n.op_type for n in sorted_nodes(match.nodes))
    return Refusal(kind.site, scoped_name(node), form, rule.name or kind.__name__, reason)


def scoped_name(node: ir.Node) -> str:
    """Return the node's name, with the PyTorch module it comes from where the exporter noted that."""
    scopes = node.metadata_props.get("pkg.torch.onnx.name_scopes", "")
    parts = [part.strip(" '\"[]") for part in scopes.split(",")][:-1]
    scope = next((part for part in reversed(parts) if part), "")
    return f"{scope}/{node.name}" if scope else node.name or node.op_type


def sorted_nodes(nodes: Iterable[ir.Node]) -> list[ir.Node]:
    """Return nodes in the order of the data: each after those that it reads from."""
    remaining = list(dict.fromkeys(nodes))
    ordered: list[ir.Node] = []
    while remaining:
        ready = next(n for n in remaining if not any(p in remaining for p in n.predecessors()))
        remaining.remove(ready)
        ordered.append(ready)
    return ordered


def _replace(model: ir.Model, graph: ir.Graph, root: ir.Node, rule: RewriteRule) -> None:
    delta = rule.try_rewrite(model, graph, root)
    assert delta is not None, f"{rule.name} matched and then did not"
    _inherit(delta.match.nodes, root, delta.new_nodes, rule)
    for old, new in zip(delta.match.outputs, delta.new_outputs, strict=True):
        new.metadata_props.update(old.metadata_props)
        new.doc_string = old.doc_string
    nodes = _with_constants_as_initializers(graph, str(root.name), delta.new_nodes)
    ir.convenience.replace_nodes_and_values(
        graph, root, delta.match.nodes, nodes, delta.match.outputs, delta.new_outputs
    )


def _with_constants_as_initializers(graph: ir.Graph, prefix: str, nodes: Sequence[ir.Node]) -> list[ir.Node]:
    """Return the nodes without their Constants, which are stored as the exporter stores its own."""
    constants = [node for node in nodes if node.op_type == "Constant" and node.domain == ""]
    for index, node in enumerate(constants):
        tensor = node.attributes["value"].as_tensor()
        value = ir.Value(
            name=f"{prefix}_constant_{index}",
            type=ir.TensorType(tensor.dtype),
            shape=ir.Shape(tensor.shape.numpy()),
            const_value=tensor,
        )
        ir.convenience.replace_all_uses_with(node.outputs[0], value)
        graph.register_initializer(value)
    return [node for node in nodes if node not in constants]


def _inherit(old: Sequence[ir.Node], root: ir.Node, new: Sequence[ir.Node], rule: RewriteRule) -> None:
    """Hand on the name, the PyTorch scope and the rules that made the matched nodes."""
    made_by = [n.metadata_props[RULE_KEY] for n in old if RULE_KEY in n.metadata_props]
    for index, node in enumerate(reversed(new)):
        node.name = root.name if index == 0 else f"{root.name}_{node.op_type}_{index}"
        node.doc_string = root.doc_string
        node.metadata_props.update(root.metadata_props)
        node.metadata_props[RULE_KEY] = "+".join(dict.fromkeys([*made_by, rule.name or ""]))
