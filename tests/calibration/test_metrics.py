"""Metrics of a quantised model: built-in ones, and a function in the user's own file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ffn_export.calibration.metrics import Measured, beside, judge, parse
from ffn_export.errors import UsageError

BEFORE = {"y": np.array([[1.0, 0.0], [0.0, 2.0]], np.float32)}
TURNED = {"y": np.array([[1.0, 0.0], [2.0, 0.0]], np.float32)}


def test_built_in() -> None:
    assert judge(parse("cosine=0.999"), BEFORE, BEFORE).passed
    assert judge(parse("cosine=0.6"), BEFORE, TURNED).value == 0.5
    assert not judge(parse("top1=0.9"), BEFORE, TURNED).passed
    assert judge(parse("top1=0.5"), BEFORE, TURNED).passed
    broken = {"y": np.full((2, 2), np.nan, np.float32)}
    assert not judge(parse("cosine=0.1"), BEFORE, broken).passed


@pytest.mark.parametrize("metric", ["cosine=0.1", "top1=0.1"])
def test_another_shape_passes_no_bound(metric: str) -> None:
    beside = {"first": np.ones((2, 2), np.float32)}
    fewer = {"y": BEFORE["y"][:1]}
    assert judge(parse(metric), {**beside, **BEFORE}, {**beside, **BEFORE}).passed
    assert not judge(parse(metric), {**beside, **BEFORE}, {**beside, **fewer}).passed
    assert not judge(parse(metric), {**BEFORE, **beside}, {**fewer, **beside}).passed


def test_cosine_is_of_the_numbers_that_a_mask_leaves() -> None:
    before = {"y": np.array([[1.0, -np.inf], [2.0, -np.inf]], np.float32)}
    assert judge(parse("cosine=0.999"), before, before).value == 1.0
    assert not judge(parse("cosine=0.1"), before, {"y": np.ones((2, 2), np.float32)}).passed
    with pytest.raises(UsageError, match="cosine is of outputs of floats"):
        judge(parse("cosine=0.9"), {"y": np.ones(2, bool)}, {"y": np.ones(2, bool)})


@pytest.mark.parametrize("fill", [-1e4, -1e9, -np.inf])
def test_cosine_is_of_the_numbers_beside_a_fill(fill: float) -> None:
    before = np.array([[1.0, 2.0, fill], [2.5, -1.25, fill]], np.float32)
    turned = before * np.array([-1, 1, 1], np.float32)
    assert judge(parse("cosine=0.9"), {"y": before}, {"y": before}).value == pytest.approx(1.0)
    assert judge(parse("cosine=0.9"), {"y": before}, {"y": turned}).value < 0.1
    assert not judge(parse("cosine=0.9"), {"y": before}, {"y": np.zeros_like(before)}).passed


def test_cosine_beside_a_fill_and_an_infinity() -> None:
    before = {"y": np.array([[-1e9, -1e9, 1.0, 2.0], [-np.inf, 3.0, 1.0, 2.0]])}
    assert judge(parse("cosine=1"), before, before).passed


@pytest.mark.parametrize("size", [1e200, 1.0, 1e-200])
def test_cosine_of_numbers_of_any_size(size: float) -> None:
    before, gone = BEFORE["y"].astype(np.float64) * size, np.zeros((2, 2))
    assert judge(parse("cosine=0.9"), {"y": before}, {"y": before}).value == pytest.approx(1.0)
    assert judge(parse("cosine=0.9"), {"y": before}, {"y": gone}).value == 0.0
    assert judge(parse("cosine=0.9"), {"y": gone}, {"y": gone}).value == 1.0


@pytest.mark.parametrize("metric", ["cosine=0.9", "top1=0.9"])
@pytest.mark.parametrize("shape", [(0, 4), (2, 0)])
def test_an_output_of_no_elements_is_right(metric: str, shape: tuple[int, int]) -> None:
    none = np.zeros(shape, np.float32)
    assert judge(parse(metric), {**BEFORE, "none": none}, {**BEFORE, "none": none}).passed


def test_a_function_of_the_user(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(
        "def gain(before, after):\n    return (after['y'] == before['y']).mean()\n"
        "def same(before, after):\n    return bool((after['y'] == before['y']).all())\n"
        "def fails(before, after):\n    return 1 / 0\n"
        "def ends(before, after):\n    raise SystemExit(3)\n"
    )
    assert judge(parse(f"{file}:gain=0.5"), BEFORE, TURNED).value == 0.5
    assert judge(parse(f"{file}:same"), BEFORE, BEFORE).passed
    assert not judge(parse(f"{file}:same"), BEFORE, TURNED).passed
    with pytest.raises(UsageError, match="fails failed: ZeroDivisionError"):
        judge(parse(f"{file}:fails"), BEFORE, BEFORE)
    with pytest.raises(UsageError, match="ends failed: SystemExit: 3"):
        judge(parse(f"{file}:ends"), BEFORE, BEFORE)
    with pytest.raises(UsageError, match="has no function 'gone'"):
        parse(f"{file}:gone")
    file.write_text("raise SystemExit(3)")
    with pytest.raises(UsageError, match="cannot be imported: SystemExit: 3"):
        parse(f"{file}:gain")


@pytest.mark.parametrize("wrong", ["cosine", "cosine=2", "bleu=0.3", "cosine=much", "top1=0"])
def test_what_is_no_metric(wrong: str) -> None:
    with pytest.raises(UsageError, match="metric"):
        parse(wrong)


def test_a_file_that_is_gone() -> None:
    with pytest.raises(UsageError, match=r"no such file: gone\.py"):
        parse("gone.py:f")


def test_largest_of_integers_are_they_themselves() -> None:
    labels = {"y": np.array([[3, 1], [2, 2]])}
    assert judge(parse("top1=1"), labels, labels).passed
    assert judge(parse("top1=0.5"), labels, {"y": np.array([[3, 0], [2, 2]])}).value == 0.75


@pytest.mark.parametrize(
    ("figure", "bound", "shown"),
    [
        (0.99996, 0.9, "1"),
        (0.99996, 1.0, "0.99996"),
        (1.0, 1.0, "1"),
        (0.012004, 0.012, "0.012004"),
        (0.02, 0.012, "0.02"),
        (float("nan"), 0.9, "nan"),
        (float("inf"), 0.9, "inf"),
    ],
)
def test_rounding_takes_no_figure_over_its_bound(figure: float, bound: float, shown: str) -> None:
    assert beside(figure, bound) == shown


def test_a_figure_just_below_what_is_asked_for_shows_it() -> None:
    found = Measured("cosine", 0.99996, 1.0)
    assert not found.passed
    assert found.words == "cosine: 0.99996 on the samples, at least 1 is asked for"
