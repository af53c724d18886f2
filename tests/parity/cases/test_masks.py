"""Every kind of mask that the cases draw, by what each row holds."""

from __future__ import annotations

import numpy as np
import pytest

from ffn_export.core.tensor_spec import parse_inputs
from ffn_export.parity.cases import masks
from ffn_export.parity.cases.case import Case, sized, sweep

SPECS = parse_inputs({"ids": "int64[batch,seq]", "mask": "int64[batch,seq]{mask}"})
SIZES = {"batch": 6, "seq": 9}


def drawn(kind: str, seed: int = 0) -> list[list[int]]:
    rows: list[list[int]] = sized(SIZES, kind, seed).feeds(SPECS)["mask"].tolist()
    return rows


@pytest.mark.parametrize("seed", range(5))
def test_each_kind_holds_what_its_name_says(seed: int) -> None:
    assert drawn("mask of ones", seed) == [[1] * 9] * 6
    assert all(sum(row) == 1 for row in drawn("mask of one key", seed))
    assert all(0 < sum(row) < 9 and row == sorted(row) for row in drawn("mask padded on the left", seed))
    assert all(0 < sum(row) < 9 and row == sorted(row)[::-1] for row in drawn("mask padded on the right", seed))
    assert all(row[0] == row[-1] == 1 and sum(row) < 9 for row in drawn("mask with holes", seed))
    without, *others = drawn("mask with a row without keys", seed)
    assert sum(without) == 0
    assert all(map(sum, others))


def test_every_kind_is_among_the_cases_and_named() -> None:
    names = {case.name for case in sweep(SPECS)}
    assert {f"batch=3,seq=5 {kind}" for kind in masks.MASKS} <= names


def test_inputs_that_are_no_masks_have_no_kinds_of_them() -> None:
    assert masks.kinds(parse_inputs({"ids": "int64[batch,seq]", "lengths": "int64[batch]", "causal": "bool[1]"})) == ()


def test_rows_without_keys_are_left_to_those_who_declare_a_mask() -> None:
    assert masks.WITHOUT_KEYS not in masks.kinds(parse_inputs({"seen": "bool[batch,seq]"}))


def test_an_undeclared_mask_of_booleans_is_once_all_ones() -> None:
    specs = parse_inputs({"seen": "bool[batch,seq]"})
    assert any(case.feeds(specs)["seen"].all() for case in sweep(specs) if min(case.sizes.values()) > 1)


def test_a_row_without_keys_is_not_judged_and_the_others_are() -> None:
    case = Case("", {"batch": 2, "seq": 3}, masks.WITHOUT_KEYS, 0)
    judged = case.judged(SPECS, np.arange(12.0).reshape(2, 3, 2))
    assert not judged[0].any()
    assert judged[1].tolist() == [[6, 7], [8, 9], [10, 11]]
    assert Case("", case.sizes, "normal", 0).judged(SPECS, np.ones((2, 3))).all()
