from __future__ import annotations

import numpy as np
import pytest

from ffn_export.core.tensor_spec import parse_inputs
from ffn_export.errors import UsageError
from ffn_export.parity.cases.case import given, sweep


def test_each_axis_is_empty_one_and_large_in_turn() -> None:
    cases = sweep(parse_inputs({"x": "float32[batch,seq,4]"}), {"batch": 8, "seq": 128})
    sizes = [tuple(case.sizes.values()) for case in cases if case.values == "normal"]
    assert sizes == [(3, 5), (0, 5), (1, 5), (257, 3), (3, 0), (3, 1), (2, 257), (1, 1), (8, 128)]
    others = [(case.values, case.ill_conditioned) for case in cases if case.values != "normal"]
    assert [kind for kind, ill in others if not ill] == ["nan", "nan in parts", "infinite", "infinite in parts"]
    ill_conditioned = [kind for kind, ill in others if ill]
    expected = ["small", "large", "outliers", "offset", "constant", "tiny", "denormal", "repeated", "zeros"]
    assert ill_conditioned == expected
    assert {tuple(case.sizes.values()) for case in cases if case.values != "normal"} == {(3, 5)}


def test_the_large_size_is_a_prime_above_the_example() -> None:
    cases = sweep(parse_inputs({"x": "float32[batch,seq,4]"}), {"batch": 8, "seq": 512})
    assert {"batch": 2, "seq": 521} in [case.sizes for case in cases]


def test_an_axis_that_ends_is_tried_at_its_end() -> None:
    cases = sweep(parse_inputs({"x": "float32[batch,seq<=512,4]", "y": "float32[batch,rows<=100000]"}))
    ends = [case.sizes for case in cases if case.sizes["seq"] == 512]
    assert ends == [{"batch": 1, "seq": 512, "rows": 1}]
    assert max(case.sizes["rows"] for case in cases) == 257


def test_bounds_are_kept_and_equal_sizes_run_once() -> None:
    cases = sweep(parse_inputs({"x": "float32[2<=batch<=4,8]"}))
    assert [case.sizes["batch"] for case in cases if case.values == "normal"] == [3, 2, 4]


def test_a_static_input_has_one_size() -> None:
    cases = sweep(parse_inputs({"x": "float32[2,8]"}))
    assert [case.name for case in cases][:3] == ["static normal", "static small", "static large"]
    assert {case.name.split()[0] for case in cases} == {"static"}


def test_integer_inputs_are_drawn_or_repeated_and_stay_in_range() -> None:
    specs = parse_inputs({"ids": "int64[batch,seq]{3..9}"})
    cases = sweep(specs)
    assert {case.values for case in cases} == {"normal", "repeated"}
    drawn = cases[3].feeds(specs)["ids"]
    assert drawn.dtype == np.int64
    assert drawn.min() == 3
    assert drawn.max() == 9


def test_values_are_drawn_from_the_seed() -> None:
    specs = parse_inputs({"x": "float32[batch,4]"})
    first, again, other = (sweep(specs, seed=seed)[0].feeds(specs)["x"] for seed in (1, 1, 2))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


def test_small_values_have_a_variance_below_every_usual_epsilon() -> None:
    specs = parse_inputs({"x": "float32[batch,4096]"})
    small = next(case for case in sweep(specs) if case.values == "small").feeds(specs)["x"]
    assert small.dtype == np.float32
    assert 0 < small.var() < 5e-6


def test_given_arrays_are_a_case_of_their_own() -> None:
    arrays = {"x": np.ones((2, 7), np.float32)}
    case = given(arrays, parse_inputs({"x": "float32[batch,7]"}))
    assert case.sizes == {"batch": 2}
    assert case.feeds(()) == arrays


def test_a_derived_axis_follows_the_others() -> None:
    specs = parse_inputs({"ids": "int64[batch,seq]", "mask": "int64[batch,past+seq]{mask}", "k": "float32[past,4]"})
    cases = sweep(specs)
    sizes = [tuple(case.sizes.values()) for case in cases]
    assert {(3, 5, 0), (3, 1, 7)} <= set(sizes)
    for case in cases:
        feeds = case.feeds(specs)
        assert feeds["mask"].shape == (case.sizes["batch"], case.sizes["past"] + case.sizes["seq"])
    assert "mask padded on the left" in {case.values for case in cases}
    arrays = cases[0].feeds(specs)
    assert given(arrays, specs).sizes == {"batch": 3, "seq": 5, "past": 7}
    with pytest.raises(
        UsageError, match=r"the array of input 'mask' is int64\[3,11\], expected int64\[batch,past\+seq\]"
    ):
        given({**arrays, "mask": arrays["mask"][:, 1:]}, specs)


def test_of_several_inputs_each_is_extreme_alone() -> None:
    specs = parse_inputs({"x": "float32[batch,4]", "ids": "int64[batch]{0..9}", "y": "float32[batch,4]"})
    alone = [case for case in sweep(specs) if case.only]
    assert [case.only for case in alone] == [("x",)] * 2 + [("y",)] * 2
    zeros = next(case for case in alone if case.name == "batch=3 zeros in y alone").feeds(specs)
    assert not zeros["y"].any()
    assert zeros["x"].all()
    assert not any(case.only for case in sweep(specs[:2]))


def test_many_inputs_take_turns_in_groups() -> None:
    specs = parse_inputs({f"x{index}": "float32[batch]" for index in range(9)})
    assert {case.only for case in sweep(specs) if case.only} == {
        ("x0", "x4", "x8"),
        ("x1", "x5"),
        ("x2", "x6"),
        ("x3", "x7"),
    }
