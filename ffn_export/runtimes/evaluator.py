"""ONNX's reference evaluator with the operators of this package, in graphs, branches and function bodies."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from graphlib import TopologicalSorter
from typing import Any

from onnx import FunctionProto, ModelProto, NodeProto
from onnx.defs import onnx_opset_version
from onnx.reference import ReferenceEvaluator
from onnx.reference.op_run import OpRun

from ffn_export.runtimes import contrib_operators, exact_operators, half_precision, old_opsets


class Evaluator(ReferenceEvaluator):
    """An evaluator of a model.

    The one of ONNX runs a function body without the operators that it was given, and cannot run ``Gelu`` there. It
    makes an evaluator of its class for each body and branch, so that these have the operators of theirs.

    It also knows no function that a model lists behind one that calls it, so the functions of a model are put in order.

    Args:
        proto: A model, or a graph or function within one.
        opsets: Opset of each domain, of a graph.
        options: Further options of ``ReferenceEvaluator``.
    """

    def __init__(self, proto: Any, opsets: dict[str, int] | None = None, **options: Any) -> None:
        imports = opsets or {each.domain: each.version for each in proto.opset_import}
        # What imports no standard operators has none, and runs by any opset.
        options["new_ops"] = _operators(imports.get("", onnx_opset_version()))
        if isinstance(proto, ModelProto):
            functions = _callees_first(proto.functions)
            del proto.functions[:]
            proto.functions.extend(functions)
        super().__init__(proto, opsets=opsets, **options)


def _callees_first(functions: Sequence[FunctionProto]) -> list[FunctionProto]:
    known = {(each.domain, each.name): each for each in functions}
    calls = {key: {call for call in _calls(each.node) if call in known} for key, each in known.items()}
    return [known[key] for key in TopologicalSorter(calls).static_order()]


def _calls(nodes: Iterable[NodeProto]) -> Iterator[tuple[str, str]]:
    for node in nodes:
        yield node.domain, node.op_type
        for attribute in node.attribute:
            for graph in (attribute.g, *attribute.graphs):
                yield from _calls(graph.node)


def _operators(opset: int) -> list[type[OpRun]]:
    return [
        *contrib_operators.OPERATORS.values(),
        *old_opsets.operators(opset),  # the evaluator takes the first of a name
        *half_precision.operators(opset),
        *exact_operators.OPERATORS,
    ]
