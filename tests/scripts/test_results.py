"""What the comparison's numbers are judged to say, and its page: on numbers that were made up."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from ffn_export.latency.result import Ratio, Timing
from ffn_export.runtimes.environment import Environment
from peers import pages, store, summary, tables
from peers.goals import GOALS, noise
from peers.result import OURS, Accuracy, Cell, ExportTimes, LayerError, Results


def cell(tokens: int = 64, ratios: dict[str, float] | None = None, spread: float = 0.01, threads: int = 1) -> Cell:
    """A cell of bert-ffn in which ours takes 1 ms, with ratios of ours over others."""
    values = {"ort": 0.9, "onnxscript": 0.9, "torch": 0.4, "bare": 1.02} if ratios is None else ratios
    return Cell(
        "bert-ffn",
        (768, 3072),
        tokens,
        threads,
        (Timing(OURS, 1e-3, 1e-3, 1e-3, 30), *(Timing(n, 1e-3 / v, 1e-3, 1e-3, 30) for n, v in values.items())),
        tuple(Ratio(OURS, name, value, value - spread, value + spread) for name, value in values.items()),
    )


def results(*cells: Cell) -> Results:
    return Results(
        "2026-01-01 00:00", ("a command",), Environment({"python": "3.11"}, "a processor", "Linux", 1), "avx2", cells
    )


def verdicts(of: Results) -> dict[str, str]:
    return {goal.text: goal.verdict(of) for goal in GOALS}


def test_a_goal_is_reached_missed_or_not_measured() -> None:
    found = verdicts(results(cell(), cell(128, {"ort": 0.94, "ort-transformers": 1.04, "torch": 0.6, "bare": 1.2})))
    assert found["ours / ort, bert-ffn 768/3072, 64 to 512 tokens"] == "reached"
    assert found["ours / best of ort, onnxscript and ort-transformers, any cell"] == "missed"
    assert found["the same beyond the noise: the low end of its interval"] == "reached"
    assert found["ours / torch, the whole table"] == "missed"
    assert found["ours / bare, 64 to 512 tokens"] == "missed"
    assert found["ours / bare, 2048 and 4096 tokens"] == "not measured"
    assert found["ours-chunked / ours, 4096 tokens"] == "not measured"
    assert set(verdicts(results()).values()) == {"not measured"}


def test_a_loss_beyond_its_interval_misses_the_goal_beyond_the_noise() -> None:
    found = verdicts(results(cell(ratios={"ort": 1.06, "onnxscript": 1.0}, spread=0.02)))
    assert found["the same beyond the noise: the low end of its interval"] == "missed"


def test_cells_of_more_threads_are_no_part_of_a_goal() -> None:
    assert set(verdicts(results(cell(threads=2))).values()) == {"not measured"}


@pytest.mark.parametrize(("over", "verdict"), [(1 / 0.94, "reached"), (1 / 0.96, "missed")])
def test_a_further_form_of_ours_is_judged_over_ours(over: float, verdict: str) -> None:
    found = verdicts(results(cell(4096, {"ours-chunked": over})))
    assert found["ours-chunked / ours, 4096 tokens"] == verdict


@pytest.mark.parametrize(("block_error", "verdict"), [(0.009, "reached"), (0.011, "missed")])
def test_the_error_of_8_bits_is_the_larger_of_both(block_error: float, verdict: str) -> None:
    layers = (LayerError(0, 0.004, block_error), LayerError(1, 0.012, 0.005))
    found = verdicts(
        replace(results(), accuracy=Accuracy("a model", 2, 20, layers, 0.006, block_error, 0.02, 0.999, 1.0))
    )
    assert found["ours-8bit, relative L2 error on real activations"] == verdict
    assert found["ours-8bit, the same of the worst single layer"] == "missed"


@pytest.mark.parametrize(("fuse", "verdict"), [(0.1, "reached"), (3.0, "missed")])
def test_export_and_fuse_are_judged_together(fuse: float, verdict: str) -> None:
    times = ExportTimes("BERT-base", (10.0, 9.0, 30.0), (11.0, 12.0, 11.5), (fuse,) * 3, (5.0,) * 3)
    found = verdicts(replace(results(), export_times=times))
    assert found["export and fuse / torch.onnx.export alone, BERT-base"] == verdict


def test_a_loss_is_listed_and_a_tie_is_called_one() -> None:
    slower = cell(1, {"openvino": 1.2, "ort": 1.005, "torch": 0.5, "bare": 1.3})
    listed = tables.losses([slower])
    (row,) = listed.splitlines()[2:]
    assert row.startswith("| bert-ffn 768/3072 | 1 | 1 | openvino | 1.200 | 1.190 to 1.210 |")
    counts = {
        line.split(" | ")[0].strip("| "): line.split(" | ")[4:]
        for line in tables.against_each([slower]).splitlines()[2:]
    }
    assert counts["openvino"] == ["0", "0", "1 |"]
    assert counts["ort"] == ["0", "1", "0 |"]
    assert counts["torch"] == ["1", "0", "0 |"]


def test_a_loss_of_the_default_shows_what_our_best_form_does() -> None:
    slower = cell(4096, {"openvino": 1.2})
    tuned = replace(slower, ratios=(*slower.ratios, Ratio("ours-tuned", "openvino", 0.97, 0.96, 0.98)))
    assert "| 0.970 (ours-tuned) |" in tables.losses([tuned])
    # The same file on a luckier load is no form.
    lucky = replace(slower, ratios=(*slower.ratios, Ratio("ours-again", "openvino", 0.9, 0.89, 0.91)))
    assert "ours-again" not in tables.losses([lucky])


def test_the_noise_is_that_of_as_many_threads() -> None:
    of = results(*(cell(n, {"ours-again": 1 + n / 100}, 0.015, 2) for n in range(1, 11)), cell(1, {"ours-again": 9.0}))
    found = noise(of, 2)
    assert found is not None
    assert [found.low, found.high] == pytest.approx([1.0145, 1.0955])
    assert (found.cells, found.told_apart) == (10, 9)
    assert noise(of, 4) is None
    page = "".join(pages.page(of, "times", "times.md"))
    assert f"The noise, 2 threads: loaded a second time, the same file takes {found.low:.3f} to 1." in page
    assert "its interval tells the two apart in 9 of 10." in page


def test_what_the_host_took_is_told() -> None:
    of = results(*(replace(cell(n), stolen=share) for n, share in ((1, 0.01), (4, 0.02), (64, 0.3), (128, None))))
    page = "".join(pages.page(of, "times", "times.md"))
    assert "gave 2.0% of the processors' time to others while a cell was timed (median; at most 30.0%: bert-ffn" in page
    assert "over 5% in 1 of 3 cells that were watched)" in page


def test_cells_that_are_measured_later_stand_in_their_place() -> None:
    first = results(replace(cell(64), widths=(1024, 4096)), replace(cell(1), model="gpt2-ffn"))
    found = first.with_cells([cell(512), cell(16), replace(cell(64), widths=(512, 2048))]).cells
    assert [(each.model, each.widths, each.tokens) for each in found] == [
        ("bert-ffn", (512, 2048), 64),
        ("bert-ffn", (768, 3072), 16),
        ("bert-ffn", (768, 3072), 512),
        ("bert-ffn", (1024, 4096), 64),
        ("gpt2-ffn", (768, 3072), 1),
    ]


def test_what_is_read_back_is_what_was_written(tmp_path: Path) -> None:
    of = results(cell(), replace(cell(4), operators={"ours": {"MatMul": 1e-3}}, errors={"ort": 1e-7}, limit=1e-4))
    store.write(of, tmp_path / "times.json")
    found = store.read(tmp_path / "times.json")
    assert found.cells[1].operators == of.cells[1].operators
    assert found.cells[0].timings[1].median == pytest.approx(of.cells[0].timings[1].median, rel=1e-4)
    store.write(found, tmp_path / "again.json")
    assert store.read(tmp_path / "again.json") == found
    pages.write(of, tmp_path / "times.md")
    assert "## Where a peer is faster\n\nNowhere" in (tmp_path / "times-tables.md").read_text()
    assert "[All tables](times-tables.md)" in (tmp_path / "times.md").read_text()
    assert (tmp_path / "times" / "summary.svg").is_file()


def test_the_summary_says_who_is_faster_in_three_sentences() -> None:
    text = " ".join(
        summary.page(results(cell(), cell(128, {"torch": 0.6, "ort": 1.1, "openvino": 1.2})), "t", "a").split()
    )
    assert "takes 0.49 of eager PyTorch's time (2 measurements: 1 blocks, 64 to 128 tokens)." in text
    assert "faster in 1, equal within the noise in 0, slower in 1." in text
    assert "most often faster is ort, in 1 of 2; over all of them ours takes 0.99 of its time." in text
    faster = summary.page(results(cell(128, {"torch": 0.6, "ort": 0.7})), "t", "a")
    assert "No other tool is faster in any of them." in " ".join(faster.split())


@pytest.mark.parametrize("name", ["results-cpu", "results-cpu-amd", "results-cpu-amd-avx2", "results-cpu-amd-zen5"])
def test_the_pages_are_those_of_their_stored_results(name: str) -> None:
    docs = Path(__file__).parents[2] / "docs"
    stored = store.read(docs / f"{name}.json")
    assert (docs / f"{name}.md").read_text() == summary.page(stored, name, f"{name}-tables.md")
    assert (docs / f"{name}-tables.md").read_text() == pages.page(stored, name, f"{name}.md")
