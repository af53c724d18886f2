"""What is tried, from what a target leaves open, the lengths and the threads."""

from __future__ import annotations

import pytest

from ffn_export.fusion.decisions import PADDED, default_forms
from ffn_export.fusion.forms import ANY, Forms
from ffn_export.fusion.targets import get_target
from ffn_export.tuning.choice import Choice
from ffn_export.tuning.moves import moves

CPU = get_target("ort-cpu")
DEFAULT = Choice(default_forms(CPU))


def names(tokens: tuple[int, ...] = (16,), threads: int = 1, *, on_cpu: bool = True, bits: bool = False) -> list[str]:
    return [move.name for move in moves(CPU, DEFAULT, tokens, threads, on_cpu=on_cpu, few_bits=bits)]


@pytest.mark.parametrize(
    ("tokens", "tried"),
    [
        ((511,), []),
        ((512,), ["chunks of 256 tokens"]),
        ((1, 768), ["chunks of 256 tokens", "chunks of 384 tokens", "chunks of 384 tokens, for long inputs only"]),
    ],
)
def test_chunks_are_tried_where_there_are_two(tokens: tuple[int, ...], tried: list[str]) -> None:
    assert [name for name in names(tokens) if "chunks" in name] == tried


def test_session_options_of_one_thread_and_of_more() -> None:
    alone = ["the runtime's own optimiser, all of it", "the runtime's optimiser without its fusions"]
    assert names()[-2:] == alone
    assert names(threads=2)[-4:] == [*alone, "work in blocks of 4", "threads that do not spin"]
    assert not set(names(threads=2, on_cpu=False)) & set(alone)


def test_few_bits_are_tried_last_and_where_they_are_allowed() -> None:
    few = ["8-bit weights", "products in 8-bit integers"]
    assert names(threads=2, bits=True) == [*names(threads=2), *few]
    assert few[1] not in names(on_cpu=False, bits=True)  # CUDA has no kernel for them


def test_few_bits_have_kernels_that_no_padding_helps() -> None:
    padded = Choice(Forms(frozenset({PADDED})))
    tried = {move.name: move.apply(padded) for move in moves(CPU, padded, (16,), 1, on_cpu=True, few_bits=True)}
    assert tried["8-bit weights"].forms.rules == frozenset()
    assert tried[f"without {PADDED}"].forms.rules == frozenset()


def test_hidden_layers_are_tried_in_pieces_and_whole_where_they_are_not() -> None:
    def tried(pieces: frozenset[str], *, outline: bool = False) -> dict[str, frozenset[str]]:
        start = Choice(Forms(pieces=pieces))
        found = moves(CPU, start, (16,), 1, on_cpu=True, few_bits=True, outline=outline)
        return {move.name: move.apply(start).forms.pieces for move in found}

    none = tried(frozenset())
    assert none["hidden layers in pieces"] == {ANY}
    assert "hidden layers whole" not in none
    some = tried(frozenset({"gelu"}))
    assert some["hidden layers whole"] == frozenset()
    assert some["hidden layers in pieces"] == {ANY}
    assert some["8-bit weights"] == frozenset()  # whose kernel packs what it reads
    assert some["with gemm-by-rows"] == {"gelu"}
    assert not any("hidden" in name for name in tried(frozenset({"gelu"}), outline=True))


def test_chunks_are_computed_in_pieces_where_they_will_not_be_one_node() -> None:
    def tried(*, outline: bool) -> dict[str, Forms]:
        found = moves(CPU, DEFAULT, (1, 768), 1, on_cpu=True, few_bits=False, outline=outline)
        return {move.name: move.apply(DEFAULT).forms for move in found if "chunks" in move.name}

    assert set(tried(outline=False)) == set(tried(outline=True))
    assert {forms.pieces for forms in tried(outline=False).values()} == {frozenset({ANY})}
    assert {forms.pieces for forms in tried(outline=True).values()} == {frozenset()}
    assert {forms.chunk for forms in tried(outline=True).values()} == {256, 384}


def test_each_open_form_is_turned_round() -> None:
    turned = {move.name: move.apply(DEFAULT) for move in moves(CPU, DEFAULT, (16,), 1, on_cpu=True, few_bits=False)}
    for name, choice in turned.items():
        verb, _, form = name.partition(" ")
        if verb in ("with", "without"):
            assert (form in choice.forms.rules) == (verb == "with")


def test_a_gate_is_packed_or_apart() -> None:
    """The two undo each other, so one taken in puts the other out."""
    packed = Choice(Forms(frozenset({"gate-packed"})))
    (apart,) = (m for m in moves(CPU, packed, (16,), 1, on_cpu=True, few_bits=False) if m.name == "with gate-apart")
    assert apart.apply(packed).forms.rules == {"gate-apart"}
