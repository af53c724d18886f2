"""Quantisation options of ``quantize`` and ``build``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from ffn_export.cli.options import Positive
from ffn_export.errors import UsageError
from ffn_export.quantization.options import DEFAULT_BLOCK, DEFAULT_BUDGET, INT8_BUDGET, INTEGERS, QuantizationOptions

Command = TypeVar("Command", bound=Callable[..., Any])


def quantization_options(command: Command) -> Command:
    """``--bits``, ``--block``, ``--accuracy-level``, ``--int8``, ``--all`` and ``--budget``."""
    command = click.option(
        "--budget",
        type=Positive(),
        metavar="SHARE",
        help=f"Declared relative L2 error of an output of a quantized model.  "
        f"[default: {DEFAULT_BUDGET}; with --int8 {INT8_BUDGET}]",
    )(command)
    command = click.option(
        "--all", "all_products", is_flag=True, help="Quantize every product with a constant matrix."
    )(command)
    command = click.option(
        "--accuracy-level",
        type=int,
        metavar="N",
        help="What quantized products compute in: 4 is 8-bit integers, 0 and 1 are float32.  [default: 4]",
    )(command)
    command = click.option(
        "--block", type=int, metavar="N", help="Weights along the input axis that share a scale.  [default: 32]"
    )(command)
    command = click.option(
        "--int8", is_flag=True, help="Compute products in 8-bit integers: activations too, with a scale for each row."
    )(command)
    return click.option("--bits", type=int, metavar="8|4", help="Bits of a stored weight of a feed-forward.")(command)


def quantization_of(
    bits: int | None,
    block: int | None,
    accuracy_level: int | None,
    all_products: bool,
    int8: bool,
    budget: float | None = None,
) -> QuantizationOptions | None:
    """Return the quantisation options, or None without ``--bits`` and ``--int8``.

    Raises:
        UsageError: If the operator does not support a value, or another option, the budget among them, is given
            without either, or ``--int8`` beside options of weights in blocks.
    """
    given = {"block": block, "accuracy_level": accuracy_level}
    named = {name: number for name, number in given.items() if number is not None}
    if int8:
        blocks = [*(["bits"] if bits is not None else []), *named]
        if blocks:
            raise UsageError(
                f"--{blocks[0].replace('_', '-')} stores weights in blocks, --int8 does not: take one of them"
            )
        return QuantizationOptions(all_products=all_products, int8=True)
    if bits is not None:
        block = DEFAULT_BLOCK if block is None else block
        level = INTEGERS if accuracy_level is None else accuracy_level
        return QuantizationOptions(bits, block, level, all_products)
    options = [*(["all"] if all_products else []), *named, *(["budget"] if budget is not None else [])]
    if options:
        option = options[0].replace("_", "-")
        raise UsageError(f"--{option} is about quantizing: give --bits 8, --bits 4 or --int8 beside it")
    return None
