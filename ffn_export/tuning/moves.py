"""Moves of the tuning: each changes one thing of a choice."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

from ffn_export.fusion.forms.choice import for_few_bits
from ffn_export.fusion.forms.form import Form
from ffn_export.quantization.options import QuantizationOptions
from ffn_export.runtimes.ort_native import BFLOAT16, INT8
from ffn_export.runtimes.session_options import SessionSettings
from ffn_export.tuning.choice import Choice


@dataclass(frozen=True)
class Move:
    """One change.

    Attributes:
        name: Name in the evidence.
        apply: Function that returns the changed choice.
    """

    name: str
    apply: Callable[[Choice], Choice]


def moves(
    forms: Sequence[Form],
    default: Choice,
    tokens: Sequence[int],
    threads: int,
    *,
    session: SessionSettings | None,
    few_bits: bool,
) -> Iterator[Move]:
    """Yield the moves, in the order in which they are tried.

    Args:
        forms: The optional forms to try: a used form is removed, an unused one is added.
        default: The choice to start from.
        tokens: Numbers of tokens that are timed; forms for long inputs are tried if the largest is long enough.
        threads: Intra-op threads; thread-pool options are tried if there is more than one.
        session: The runtime's own options (``default_session``) if it runs on the CPU, otherwise None.
        few_bits: Whether 8-bit weights, or lower precisions of native kernels, are allowed.
    """
    if default.precision is not None:
        for native in (BFLOAT16, INT8) if few_bits else ():
            yield Move(f"precision {native.precision}", partial(replace, precision=native.precision, raised=()))
        return
    for form in forms:
        if form.name in default.forms:
            yield Move(f"without {form.name}", _without(form.name))
        elif max(tokens, default=0) >= form.least_tokens:
            yield Move(f"with {form.name}", _with(form.name))
    if session:
        yield Move("the runtime's own optimiser, all of it", partial(replace, settings=session))
        yield Move("the runtime's optimiser without its fusions", partial(replace, settings=session.without_fusions()))
        if threads > 1:
            yield Move("work in blocks of 4", _with_entry("session.dynamic_block_base", "4"))
            yield Move("threads that do not spin", _with_entry("session.intra_op.allow_spinning", "0"))
    if few_bits:
        yield Move("8-bit weights", _quantized(QuantizationOptions()))
        if session:  # CUDA has no kernel for them
            yield Move("products in 8-bit integers", _quantized(QuantizationOptions(int8=True)))


def _with(form: str) -> Callable[[Choice], Choice]:
    return lambda choice: replace(choice, forms=choice.forms | {form})


def _without(form: str) -> Callable[[Choice], Choice]:
    return lambda choice: replace(choice, forms=choice.forms - {form})


def _with_entry(key: str, value: str) -> Callable[[Choice], Choice]:
    def changed(choice: Choice) -> Choice:
        old = choice.settings
        return replace(choice, settings=replace(old, config_entries={**old.config_entries, key: value}))

    return changed


def _quantized(options: QuantizationOptions) -> Callable[[Choice], Choice]:
    return lambda choice: replace(choice, forms=for_few_bits(choice.forms), quantization=options)
