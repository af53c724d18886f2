"""``fuse``: a graph with its feed-forwards and norms rewritten for a target, and checked against the model."""

from __future__ import annotations

import onnx_ir as ir

from ffn_export.fusion.forms import Forms
from ffn_export.fusion.report import FusionReport
from ffn_export.fusion_check.check import fuse_checked
from ffn_export.fusion_check.limits import Limits


def fuse(
    model: ir.Model,
    target: str = "ort-cpu",
    check: bool = True,
    *,
    outline: bool = False,
    portable_functions: bool = False,
    forms: Forms | None = None,
    limits: Limits | None = None,
    threads: int | None = None,
) -> tuple[ir.Model, FusionReport]:
    """Fuse the feed-forward and norm nodes of a model, and undo each rewrite that changes the outputs.

    Every model has a result: at the worst, the model as it came.

    Args:
        model: Any ONNX model; it is left unchanged, and the result shares its weights.
        target: Name of the target, such as ``ort-cpu`` or ``portable``.
        check: Run both graphs on drawn inputs and compare them.
        outline: Make each feed-forward one node, a call of a model-local function.
        portable_functions: Give the operators of ``com.microsoft`` bodies in standard operators.
        forms: The optional forms to use; None means the default from the measured kernel costs.
        limits: Time and memory that the check may take.
        threads: Threads of the check; None means the processors that this process may run on.

    Returns:
        The fused model, and what became of each site; ``report.check`` says what was compared.

    Raises:
        UsageError: If no target has this name, or it does not offer these forms.

    Example:
        >>> fused, report = fx.fuse(model, target="ort-cpu")
        >>> report.explain()
    """
    return fuse_checked(
        model,
        target,
        check,
        outline=outline,
        portable_functions=portable_functions,
        forms=forms,
        limits=limits,
        threads=threads,
    )
