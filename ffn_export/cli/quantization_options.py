"""Quantisation options of ``quantize`` and ``build``."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, cast

import click

from ffn_export.cli.options import Command, Positive, several
from ffn_export.errors import UsageError
from ffn_export.quantization.engines import ENGINES
from ffn_export.quantization.options import (
    BITS,
    BLOCKS,
    CALIBRATIONS,
    DEFAULT_BLOCK,
    DEFAULT_BUDGET,
    INT8_BUDGET,
    INTEGERS,
    LEVELS,
    QuantizationOptions,
)

_options = several(
    click.option("--bits", type=click.Choice(BITS), metavar="8|4", help="Bits of a stored weight of a feed-forward."),
    click.option(
        "--int8",
        is_flag=True,
        help="Compute products in 8-bit integers: activations too, with scales for rows that differ.",
    ),
    click.option(
        "--static",
        type=click.Choice(list(ENGINES)),
        is_flag=False,
        flag_value=next(iter(ENGINES)),
        metavar="[ENGINE]",
        help="The same with one scale for each input, calibrated on samples, as an engine wants it: "
        f"{', '.join(ENGINES)}.  [without a name: {next(iter(ENGINES))}]",
    ),
    click.option(
        "--calibration",
        type=click.Choice(CALIBRATIONS),
        help=f"How --static finds the range of an input.  [default: {CALIBRATIONS[0]}]",
    ),
    click.option(
        "--block",
        type=click.Choice(BLOCKS),
        metavar="N",
        help="Weights along the input axis that share a scale.  [default: 32]",
    ),
    click.option(
        "--accuracy-level",
        type=click.Choice(LEVELS),
        metavar="0|1|4",
        help="What quantized products compute in: 4 is 8-bit integers, 0 and 1 are float32.  [default: 4]",
    ),
    click.option("--all", "all_products", is_flag=True, help="Quantize every product with a constant matrix."),
    click.option(
        "--budget",
        type=Positive(),
        metavar="SHARE",
        help=f"Declared relative L2 error of an output of a quantized model.  "
        f"[default: {DEFAULT_BUDGET}; with --int8 {INT8_BUDGET}]",
    ),
)


def quantization_options(default_bits: int | None = None) -> Callable[[Command], Command]:
    """Add the options of quantisation; the command gets them as ``quantization`` and ``budget``.

    Args:
        default_bits: Bits without ``--bits`` and ``--int8``; None quantises nothing.
    """

    def decorate(command: Command) -> Command:
        @wraps(command)
        def gathered(*arguments: Any, budget: float | None, bits: int | None, int8: bool, **given: Any) -> Any:
            chosen = {
                name: given.pop(name) for name in ("block", "accuracy_level", "all_products", "static", "calibration")
            }
            int8 = int8 or chosen["static"] is not None
            bits = default_bits if bits is None and not int8 else bits
            of_weights = budget if given.get("precision") is None else None
            quantization = _quantization(bits, int8=int8, **chosen, budget=of_weights)
            return command(*arguments, **given, budget=budget, quantization=quantization)

        return cast("Command", _options(gathered))

    return decorate


def _quantization(
    bits: int | None,
    block: int | None,
    accuracy_level: int | None,
    all_products: bool,
    int8: bool,
    static: str | None,
    calibration: str | None,
    budget: float | None,
) -> QuantizationOptions | None:
    """Return the quantisation options, or None without ``--bits`` and ``--int8``.

    Raises:
        UsageError: If the operator does not support a value, or another option, the budget among them, is given
            without either, or ``--int8`` beside options of weights in blocks.
    """
    given = {"block": block, "accuracy_level": accuracy_level}
    named = {name: number for name, number in given.items() if number is not None}
    if calibration is not None and static is None:
        raise UsageError("--calibration finds the ranges of --static: give it, too")
    if int8:
        blocks = [*(["bits"] if bits is not None else []), *named]
        if blocks:
            raise UsageError(
                f"--{blocks[0].replace('_', '-')} stores weights in blocks, --int8 does not: take one of them"
            )
        return QuantizationOptions(
            all_products=all_products, int8=True, static=static, calibration=calibration or CALIBRATIONS[0]
        )
    if bits is not None:
        block = DEFAULT_BLOCK if block is None else block
        level = INTEGERS if accuracy_level is None else accuracy_level
        return QuantizationOptions(bits, block, level, all_products)
    options = [*(["all"] if all_products else []), *named, *(["budget"] if budget is not None else [])]
    if options:
        option = options[0].replace("_", "-")
        raise UsageError(f"--{option} is about quantizing: give --bits 8, --bits 4 or --int8 beside it")
    return None
