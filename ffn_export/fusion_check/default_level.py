"""Compare the graphs at the default optimisation level, at which ONNX Runtime rewrites the graph that it loads.

Its fusions may break a graph that runs well node by node. The fused graph must run wherever the model does.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

import onnx_ir as ir

from ffn_export.fusion_check.difference import Difference, difference
from ffn_export.fusion_check.inputs import Case
from ffn_export.fusion_check.running import ORT, RefusedError, Runtimes
from ffn_export.runtimes.default_session import default_session

# The runtime's fusions change the rounding of both graphs, maybe a little more in one of them.
_AS_FAR = 4


def problem(
    runtimes: Runtimes, model: ir.Model, fused: ir.Model, cases: Sequence[Case], outputs: Collection[str], bound: float
) -> str | None:
    """Return the problem of a fused graph at the default level, or None if the original model is no better.

    The cases have the results of the original model without optimisation. A difference up to the bound is rounding.
    """
    found = list(_differences(runtimes, fused, cases, outputs))
    if all(each.relative <= bound for each in found):
        return None
    own = _differences(runtimes, model, cases, outputs)
    for case, ours, theirs in zip(cases, found, own, strict=True):
        if ours.relative > bound and ours.relative > _AS_FAR * theirs.relative:
            sizes = ", ".join(f"{name}={size}" for name, size in case.sizes.items())
            return f"at the default level of ONNX Runtime, at {sizes or 'its sizes'}: {ours.words()}"
    return None


def _differences(
    runtimes: Runtimes, model: ir.Model, cases: Sequence[Case], outputs: Collection[str]
) -> Iterator[Difference]:
    """Yield the largest difference of each case."""
    try:
        with runtimes.loaded(model.clone(), ORT, default_session(model)) as run:
            for case in cases:
                try:
                    actual = run(case.feeds)
                except RefusedError as refused:
                    yield Difference(float("inf"), str(refused))
                    continue
                found = (difference(case.expected[name], actual[name]) for name in outputs)
                yield max(found, key=lambda each: each.relative, default=Difference(0.0))
    except RefusedError as refused:
        yield from [Difference(float("inf"), str(refused))] * len(cases)
