"""The forms in use: the default from the measured kernel costs, or those that the caller names.

A gain depends on the version of ONNX Runtime and on the processor. So the table of measured costs decides on each
optional form, and ``ffn-export tune`` measures it.
"""

from __future__ import annotations

from collections.abc import Collection

import onnx_ir as ir

from ffn_export.errors import UsageError, did_you_mean
from ffn_export.fusion.costs import costs
from ffn_export.fusion.forms import Forms
from ffn_export.fusion.forms.form import Form
from ffn_export.fusion.targets import TARGETS, Target


def default_forms(target: Target) -> Forms:
    """Return the forms that are used by default."""
    return frozenset(form.name for form in target.optional if form.default(costs()))


def in_use(forms: Collection[str] | None, target: Target) -> Forms:
    """Return the forms to fuse with.

    Args:
        forms: Names of the forms that the caller chose; None for the defaults from the table of costs.
        target: Target of the fusion.

    Raises:
        UsageError: If the target does not offer these forms.
    """
    chosen = default_forms(target) if forms is None else frozenset(forms)
    known = [form.name for form in target.optional]
    for name in sorted(chosen.difference(known)):
        meant = did_you_mean(name, known)
        offered = ", ".join(known) or "none"
        raise UsageError(f"{name!r} is no optional form of {target.name};{meant} it offers {offered}")
    return chosen


def for_few_bits(forms: Forms) -> Forms:
    """Return the forms without those that quantising undoes, because its kernel packs the weights that it reads."""
    return forms - {form.name for form in _every_form() if not form.in_few_bits}


def undo(model: ir.Model, *, for_few_bits: bool = False) -> None:
    """Take all optional forms back that can be, in place; or only those that quantised weights cannot have."""
    for form in _every_form():
        if form.undo is not None and not (for_few_bits and form.in_few_bits):
            form.undo(model)


def _every_form() -> tuple[Form, ...]:
    return tuple(form for target in TARGETS.values() for form in target.optional)
