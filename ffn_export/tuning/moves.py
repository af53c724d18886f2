"""Moves of the tuning: each changes one thing of a choice."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from ffn_export.fusion.decisions import for_few_bits, open_names
from ffn_export.fusion.forms import ANY
from ffn_export.fusion.targets import Target
from ffn_export.quantization.options import QuantizationOptions
from ffn_export.runtimes.session_options import STOP_REFUSING, SessionSettings
from ffn_export.tuning.choice import Choice

CHUNKS = (256, 384, 512)
DEFAULT_CHUNK = 384


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
    target: Target,
    default: Choice,
    tokens: Sequence[int],
    threads: int,
    *,
    on_cpu: bool,
    few_bits: bool,
    outline: bool = False,
) -> Iterator[Move]:
    """Yield the moves, in the order in which they are tried.

    Args:
        target: The target, whose open forms are tried: a used form is removed, an unused one is added.
        default: The choice to start from.
        tokens: Numbers of tokens that are timed; row chunks are tried if the largest is at least two chunks.
        threads: Intra-op threads; thread-pool options are tried if there is more than one.
        on_cpu: Whether the runtime runs on the CPU.
        few_bits: Whether 8-bit weights are allowed.
        outline: Whether each feed-forward will be one node, which excludes split hidden layers.
    """
    undoes = {rule.name: rule.undoes for rule in target.open_forms}
    for name in open_names(target):
        used = name in default.forms.rules
        yield Move(f"{'without' if used else 'with'} {name}", _toggled(name, undoes.get(name), on=not used))
    if target.by_rows and not outline:
        yield Move("hidden layers in pieces", _with_pieces(frozenset({ANY})))
        if default.forms.pieces:
            yield Move("hidden layers whole", _with_pieces(frozenset()))
    for chunk in CHUNKS if target.by_rows else ():
        if max(tokens, default=0) >= 2 * chunk:
            yield Move(f"chunks of {chunk} tokens", _with_chunk(chunk, outline=outline))
    # Only if short inputs are timed too: for them, a loop costs more than it gains.
    if target.by_rows and min(tokens, default=0) < 2 * DEFAULT_CHUNK <= max(tokens, default=0):
        longer = _with_chunk(DEFAULT_CHUNK, long_only=True, outline=outline)
        yield Move(f"chunks of {DEFAULT_CHUNK} tokens, for long inputs only", longer)
    for name, settings in _settings(threads) if on_cpu else ():
        yield Move(name, _with_settings(settings))
    if few_bits:
        yield Move("8-bit weights", _with_bits)
        if on_cpu:  # CUDA has no kernel for them
            yield Move("products in 8-bit integers", _with_int8)


def _settings(threads: int) -> Iterator[tuple[str, Callable[[SessionSettings], SessionSettings]]]:
    yield "the runtime's own optimiser, all of it", lambda old: SessionSettings("all", {})
    yield "the runtime's optimiser without its fusions", lambda old: SessionSettings("all", dict(STOP_REFUSING))
    if threads > 1:
        yield "work in blocks of 4", _entry("session.dynamic_block_base", "4")
        yield "threads that do not spin", _entry("session.intra_op.allow_spinning", "0")


def _entry(key: str, value: str) -> Callable[[SessionSettings], SessionSettings]:
    return lambda old: replace(old, config_entries={**old.config_entries, key: value})


def _toggled(name: str, undoes: str | None, *, on: bool) -> Callable[[Choice], Choice]:
    def apply(choice: Choice) -> Choice:
        rules = choice.forms.rules
        rules = (rules - {undoes}) | {name} if on else rules - {name}
        return replace(choice, forms=replace(choice.forms, rules=rules))

    return apply


def _with_chunk(chunk: int, *, long_only: bool = False, outline: bool) -> Callable[[Choice], Choice]:
    def apply(choice: Choice) -> Choice:
        chunked = replace(choice, forms=choice.forms.in_chunks(chunk, long_only=long_only))
        return chunked.whole() if outline else chunked

    return apply


def _with_pieces(pieces: frozenset[str]) -> Callable[[Choice], Choice]:
    return lambda choice: replace(choice, forms=replace(choice.forms, pieces=pieces))


def _with_settings(change: Callable[[SessionSettings], SessionSettings]) -> Callable[[Choice], Choice]:
    return lambda choice: replace(choice, settings=change(choice.settings))


def _with_int8(choice: Choice) -> Choice:
    return replace(choice, forms=for_few_bits(choice.forms), quantization=QuantizationOptions(int8=True))


def _with_bits(choice: Choice) -> Choice:
    return replace(choice, forms=for_few_bits(choice.forms), quantization=QuantizationOptions())
