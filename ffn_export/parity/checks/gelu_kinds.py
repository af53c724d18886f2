"""Check that every GELU of a graph is of a kind that the module computes.

The two kinds differ by at most 0.0005, so in half precision no bound on an output tells them apart. If the module calls
GELU, a node of the other kind is reported, unless the module may compute that kind as a decomposed operator.
"""

from __future__ import annotations

import onnx_ir as ir

from ffn_export.fusion.functions.contract import DOMAIN
from ffn_export.fusion.operator_names import operator_activation
from ffn_export.fusion.views import string_of
from ffn_export.parity.checks.checked_run import CheckedRun
from ffn_export.parity.checks.computed_nodes import computed_nodes
from ffn_export.parity.judging.check_result import CheckResult
from ffn_export.parity.reference.module_trace import GeluKind, Watched

_KINDS: dict[str | None, GeluKind] = {"gelu": "erf", "gelu_tanh": "tanh"}


def check(run: CheckedRun) -> CheckResult | None:
    """Compare the GELUs of the graph with those of the module.

    The check is skipped if a tolerance is declared, since it may allow the other kind.
    """
    watched = run.module_trace
    if watched is None or not watched.calls_gelu or run.declares_tolerance:
        return None
    return CheckResult.of("GELU kinds", "those of the module", differences(run.model, watched))


def differences(model: ir.Model, watched: Watched) -> tuple[str, ...]:
    """Return one line for each GELU of a kind that the module does not compute."""
    if not watched.calls_gelu:
        return ()
    kinds = " and ".join(sorted(watched.gelus))
    return tuple(
        f"node {node.name!r} ({node.op_type}) is a GELU with {kind}, PyTorch computes it with {kinds}"
        for node in computed_nodes(model)
        if (kind := _KINDS.get(_activation(node))) is not None and kind not in watched.gelus
    )


def _activation(node: ir.Node) -> str | None:
    return string_of(node, "activation", "") if node.domain == DOMAIN else operator_activation(node)
