"""Check that a graph rounds nothing, and computes nothing, in half precision where the module does not.

ONNX Runtime's CPU provider has few kernels of half precision. It computes in float32 where it lacks one, and removes a
cast to half precision and back. Its outputs are then right, and those of another runtime are not.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import onnx_ir as ir

from ffn_export.fusion import constants
from ffn_export.parity.checks.checked_run import CheckedRun
from ffn_export.parity.checks.computed_nodes import computed_nodes
from ffn_export.parity.checks.node_arithmetic import NodeArithmetic
from ffn_export.parity.judging.check_result import CheckResult
from ffn_export.parity.reference.module_trace import Watched
from ffn_export.parity.reference.sensitive_arithmetic import KINDS, NORMS

_MOST_NAMES = 4


def check(run: CheckedRun) -> CheckResult | None:
    """Compare the dtypes that the graph casts to and computes in with those of the module.

    The check is skipped if a tolerance is declared, since it may allow a rounding.
    """
    watched = run.module_trace
    if watched is None or run.declares_tolerance:
        return None
    findings = (*differences(run.model, watched), *narrowed(run.model, watched))
    return CheckResult.of("precisions", "those of the module", findings)


def differences(model: ir.Model, watched: Watched) -> Iterator[str]:
    """Yield one line for each cast of a computed value to a narrower dtype that no tensor of the module has."""
    least = min((torch_dtype.itemsize for torch_dtype in watched.dtypes), default=0)
    for node in computed_nodes(model):
        if node.op_type != "Cast" or node.domain != "" or constants.evaluate(node.inputs[0]) is not None:
            continue
        to = ir.DataType(node.attributes.get_int("to", ir.DataType.FLOAT.value))
        if to.is_floating_point() and to.itemsize < least:
            had = ", ".join(sorted(str(each).removeprefix("torch.") for each in watched.dtypes))
            yield f"node {node.name!r} (Cast) rounds to {to.name.lower()}, PyTorch computes in {had} alone"


def narrowed(model: ir.Model, watched: Watched) -> Iterator[str]:
    """Yield one line for each kind of arithmetic that the graph computes in half precision more often than the module.

    It must also compute it in float32 less often: one operator of a module may be several nodes, and several may be
    one. A norm in half precision that is one operator in the module and one node in the graph is left out on both
    sides. A line is left out if its nodes are those of the line before.
    """
    graph = NodeArithmetic.of(model)
    norms: Counter[str] = Counter()
    for norm, kinds in NORMS.items():
        kept = min(graph.norms[norm], watched.arithmetic[norm, True])
        norms.update({kind: kept * count for kind, count in kinds.items()})
    named: set[ir.Node] = set()
    for kind in KINDS:
        wide, half = watched.arithmetic[kind, False], watched.arithmetic[kind, True] - norms[kind]
        nodes = graph.nodes.get(kind, [])
        graph_wide = graph.wide[kind] - norms[kind]
        if graph.half[kind] <= half or graph_wide >= wide or named.issuperset(nodes):
            continue
        named.update(nodes)
        names = ", ".join(f"{node.name!r} ({node.op_type})" for node in nodes[:_MOST_NAMES])
        more = f" and {len(nodes) - _MOST_NAMES} more" if len(nodes) > _MOST_NAMES else ""
        one_of = "" if not half else "one or more of "
        yield (
            f"{kind}: PyTorch computes {wide} in float32 and {half} in half precision, the graph {graph_wide} "
            f"and {graph.half[kind]}: cast to float32 before {one_of}{names}{more}"
        )
