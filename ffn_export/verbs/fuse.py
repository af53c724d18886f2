"""``fuse``: rewrites the feed-forwards and norms of a graph for a target, and checks the result."""

from __future__ import annotations

from collections.abc import Collection

import onnx_ir as ir

from ffn_export.fusion.report import FusionReport
from ffn_export.fusion_check.check import fuse_checked
from ffn_export.fusion_check.limits import Limits
from ffn_export.verbs.open_model import Model, as_ir


def fuse(
    model: Model,
    target: str = "ort-cpu",
    check: bool = True,
    *,
    portable_functions: bool = False,
    forms: Collection[str] | None = None,
    limits: Limits | None = None,
    threads: int | None = None,
) -> tuple[ir.Model, FusionReport]:
    """Fuse the feed-forward and norm nodes of a model, and undo each rewrite that changes the outputs.

    Every model gives a result: at worst, the unchanged model.

    Args:
        model: Any ONNX model in memory, an ``.onnx`` file, or a bundle; it is not modified, and the result shares its
            weights.
        target: Name of the target, such as ``ort-cpu`` or ``portable``.
        check: Run both graphs on drawn inputs and compare them.
        portable_functions: Add function bodies in standard operators for the ``com.microsoft`` operators.
        forms: Names of the optional forms to use; None means the default from the measured kernel costs.
        limits: Time and memory limits of the check.
        threads: Threads of the check; None means the number of processors available to this process.

    Returns:
        The fused model, and a report with the status of each site; ``report.check`` says what was compared.

    Raises:
        UsageError: If the target is unknown or does not offer these forms.

    Examples:
        >>> fused, report = fx.fuse(fx.export("d2l-ffn-addnorm"), target="ort-cpu")
        >>> [site.kind for site in report.sites]
        ['feed_forward', 'norm', 'residual_norm']
    """
    return fuse_checked(
        as_ir(model), target, check, portable_functions=portable_functions, forms=forms, limits=limits, threads=threads
    )
