"""Correct onnxscript's rewrite rules during an export: match constants exactly, and leave out wrong rules.

The optimiser of torch's exporter has three faults:

1. It removes ``x + c`` if ``c`` is within 1e-8 of 0, and ``x * c`` if ``c`` is within 1e-5 of 1. The first removes the
   epsilon of many decomposed norms, which makes a row of zeros NaN.
2. Its rules from ``Min`` and ``Max`` to ``Clip`` name the bounds ``x_min`` and ``x_max`` after the input. If another
   ``Clip`` of the input or another value has that name, the ``Clip`` reads a value that no node produces.
3. It multiplies weights by the factors of a batch norm behind them, in their dtype: float16 loses digits, and bfloat16
   becomes float32, which the node does not take.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

_TOLERANCES = ("_rel_tol", "_abs_tol")


@contextlib.contextmanager
def exact_rules(*, is_half: bool) -> Iterator[None]:
    """Make rules match constants exactly and leave out wrong ones; restore both afterwards.

    Args:
        is_half: Whether values are in half precision, and batch norms stay therefore.
    """
    from onnxscript import rewriter
    from onnxscript.rewriter.rules.common import _fuse_batchnorm as norms
    from onnxscript.rewriter.rules.common import _min_max_to_clip as clips

    rules = rewriter._DEFAULT_REWRITE_RULES
    wrong = (*clips.rules, *(norms.rules if is_half else ()))
    rewriter._DEFAULT_REWRITE_RULES = tuple(rule for rule in rules if rule not in wrong)
    before = [(constant, {name: getattr(constant, name) for name in _TOLERANCES}) for constant in _constants()]
    for constant, _ in before:
        vars(constant).update(dict.fromkeys(_TOLERANCES, 0.0))
    try:
        yield
    finally:
        rewriter._DEFAULT_REWRITE_RULES = rules
        for constant, tolerances in before:
            vars(constant).update(tolerances)


def _constants() -> list[Any]:
    """Return the constants in the patterns of the optimiser's rules, which have no public access."""
    from onnxscript import rewriter
    from onnxscript.rewriter import _pattern_ir as patterns

    found = []
    for rule in rewriter._DEFAULT_REWRITE_RULES:
        for node in getattr(rule, "_target_pattern", ()):
            found += [value for value in node.inputs if isinstance(value, patterns.Constant)]
    return found
