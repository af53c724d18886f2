"""ONNX's reference evaluator with the operators of this package, in graphs, branches and function bodies."""

from __future__ import annotations

from typing import Any

from onnx.reference import ReferenceEvaluator
from onnx.reference.op_run import OpRun

from ffn_export.runtimes import contrib_operators, exact_operators, half_precision, old_opsets


class Evaluator(ReferenceEvaluator):
    """An evaluator of a model.

    The one of ONNX runs a function body without the operators that it was given, and cannot run ``Gelu`` there. It
    makes an evaluator of its class for each body and branch, so that these have the operators of theirs.

    Args:
        proto: A model, or a graph or function within one.
        opsets: Opset of each domain, of a graph.
        options: Further options of ``ReferenceEvaluator``.
    """

    def __init__(self, proto: Any, opsets: dict[str, int] | None = None, **options: Any) -> None:
        imports = opsets or {each.domain: each.version for each in proto.opset_import}
        options["new_ops"] = _operators(imports.get("", 0))
        super().__init__(proto, opsets=opsets, **options)


def _operators(opset: int) -> list[type[OpRun]]:
    return [
        *contrib_operators.OPERATORS.values(),
        *old_opsets.operators(opset),  # the evaluator takes the first of a name
        *half_precision.operators(opset),
        *exact_operators.OPERATORS,
    ]
