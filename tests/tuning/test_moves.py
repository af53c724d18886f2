"""What is tried, from the forms that a target offers, the lengths and the threads."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ffn_export.fusion.targets import get_target
from ffn_export.runtimes.session_options import DISABLE_OPTIMIZERS, ORT_DEFAULT, SessionSettings
from ffn_export.tuning.choice import Choice
from ffn_export.tuning.moves import Move, moves

FORMS = get_target("ort-cpu").optional
DEFAULT = Choice(frozenset({"padded-widths"}))


def names(tokens: tuple[int, ...] = (16,), threads: int = 1, *, on_cpu: bool = True, bits: bool = False) -> list[str]:
    session = ORT_DEFAULT if on_cpu else None
    return [move.name for move in moves(FORMS, DEFAULT, tokens, threads, session=session, few_bits=bits)]


@pytest.mark.parametrize(("tokens", "tried"), [((767,), False), ((1, 768), True)])
def test_chunks_are_tried_where_there_are_two(tokens: tuple[int, ...], tried: bool) -> None:
    assert ("with row-chunks" in names(tokens)) == tried


def test_session_options_of_one_thread_and_of_more() -> None:
    alone = ["the runtime's own optimiser, all of it", "the runtime's optimiser without its fusions"]
    assert names()[-2:] == alone
    assert names(threads=2)[-4:] == [*alone, "work in blocks of 4", "threads that do not spin"]
    assert not set(names(threads=2, on_cpu=False)) & set(alone)


def test_few_bits_are_tried_last_and_where_they_are_allowed() -> None:
    few = ["8-bit weights", "products in 8-bit integers"]
    assert names(threads=2, bits=True) == [*names(threads=2), *few]
    assert few[1] not in names(on_cpu=False, bits=True)  # CUDA has no kernel for them


def every_move(session: SessionSettings = ORT_DEFAULT) -> Iterator[Move]:
    return moves(FORMS, DEFAULT, (768,), 1, session=session, few_bits=True)


def test_the_optimiser_keeps_what_the_model_is_loaded_without() -> None:
    session = SessionSettings("all", {DISABLE_OPTIMIZERS: "NchwcTransformer"})
    tried = {move.name: move.apply(DEFAULT).settings for move in every_move(session)}
    assert tried["the runtime's own optimiser, all of it"] == session
    entry = tried["the runtime's optimiser without its fusions"].config_entries[DISABLE_OPTIMIZERS]
    assert {"NchwcTransformer", "BiasGeluFusion"} <= set(entry.split(";"))


def test_each_move_changes_one_thing() -> None:
    every = Choice(frozenset(form.name for form in FORMS))
    tried = {move.name: move.apply(every) for move in every_move()}
    assert tried["without padded-widths"].forms == every.forms - {"padded-widths"}
    assert tried["with row-chunks"].forms == tried["with split-hidden-layers"].forms == every.forms
    # Quantised weights are packed, so their rows are neither padded nor split.
    assert tried["8-bit weights"].forms == every.forms - {"padded-widths", "split-hidden-layers"}


def test_what_is_used_is_tried_without_whatever_the_lengths() -> None:
    start = Choice(frozenset({"row-chunks"}))
    assert "without row-chunks" in [
        move.name for move in moves(FORMS, start, (1,), 1, session=ORT_DEFAULT, few_bits=False)
    ]
