"""Check that a graph rounds nothing to a dtype that the module does not compute in.

ONNX Runtime removes a cast to half precision and back, or computes in float32 between the two where it lacks a kernel.
Its outputs are then right, and those of another runtime are not.
"""

from __future__ import annotations

from collections.abc import Iterator

import onnx_ir as ir

from ffn_export.fusion import constants
from ffn_export.parity.checks.checked_run import CheckedRun
from ffn_export.parity.checks.computed_nodes import computed_nodes
from ffn_export.parity.judging.check_result import CheckResult
from ffn_export.parity.reference.module_trace import Watched


def check(run: CheckedRun) -> CheckResult | None:
    """Compare the dtypes that the graph casts to with those of the module.

    The check is skipped if a tolerance is declared, since it may allow a rounding.
    """
    watched = run.module_trace
    if watched is None or run.declares_tolerance:
        return None
    return CheckResult.of("precisions", "those of the module", tuple(differences(run.model, watched)))


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
