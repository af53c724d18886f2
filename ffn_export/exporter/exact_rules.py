"""onnxscript's rewriting rules, with constants that have to be what they say, and without those that lose a value.

The optimiser that torch's exporter calls takes away ``x + c`` where ``c`` is within 1e-8 of 0, and ``x * c`` where it
is within 1e-5 of 1. The first of these is the epsilon of many a norm that is written out: without it a row of zeros is
NaN. And the rules that make a ``Clip`` of ``Min`` and ``Max`` call its bounds ``x_min`` and ``x_max`` after its input:
the second of one input, or any beside a value of that name, reads what nothing makes.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

_TOLERANCES = ("_rel_tol", "_abs_tol")


@contextlib.contextmanager
def exact_rules() -> Iterator[None]:
    """Let a rule match a number only where it is that number, leave those out, and afterwards be as before."""
    from onnxscript import rewriter
    from onnxscript.rewriter.rules.common import _min_max_to_clip as clips

    rules = rewriter._DEFAULT_REWRITE_RULES
    rewriter._DEFAULT_REWRITE_RULES = tuple(rule for rule in rules if rule not in clips.rules)
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
    """The constants in the patterns of the rules that the optimiser uses; there is no public way to them."""
    from onnxscript import rewriter
    from onnxscript.rewriter import _pattern_ir as patterns

    found = []
    for rule in rewriter._DEFAULT_REWRITE_RULES:
        for node in getattr(rule, "_target_pattern", ()):
            found += [value for value in node.inputs if isinstance(value, patterns.Constant)]
    return found
