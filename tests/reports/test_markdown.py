"""What a CI job's summary shows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from html import unescape
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

from ffn_export.parity.bisection.result import Bisection
from ffn_export.parity.judging.result import CaseResult, ParityResult
from ffn_export.reports.formats import Verification
from ffn_export.reports.markdown import MOST_LINES, verification_markdown

MakeCase = Callable[..., CaseResult]
MakeParity = Callable[..., ParityResult]


def shown(markdown: str) -> str:
    """Return the page as a reader of the summary gets it, in HTML."""
    html: str = MarkdownIt("gfm-like", {"linkify": False}).render(markdown)
    return html


def test_verdict_first_then_runtimes_failures_and_the_command(failed: ParityResult, tmp_path: Path) -> None:
    (tmp_path / "summary.md").write_text(verification_markdown(Verification(failed)))
    page = (tmp_path / "summary.md").read_text()
    lines = page.splitlines()
    assert lines[0] == "## ❌ Failed: parity of bert-ffn.onnx against bert-ffn"
    assert lines[2] == "2 runtimes judged 3 cases: 2 failed, 2 other failures."
    assert "| ort-cpu | failed | 1 | 0 | 1 | 1 | 292.40 | 8.00 | 36.55 | 1.30 | batch=3,seq=5 large |" in lines
    assert "| ort-cuda | unavailable | the GPU wheel of onnxruntime is not installed |" in lines
    seen = unescape(shown(page))
    assert all(f"<li>{failure}</li>" in seen for failure in failed.failures)
    assert "ffn-export verify bert-ffn.onnx --against bert-ffn" in seen


def test_a_passed_page_has_no_failures_and_a_warned_one_says_so(passed: ParityResult, warned: ParityResult) -> None:
    assert "### Failures" not in verification_markdown(Verification(passed))
    assert "### Warnings" not in verification_markdown(Verification(passed))
    page = verification_markdown(Verification(warned))
    assert page.startswith("## ✅ Passed, ⚠️ 1 warned: parity of")
    assert "1.50 times what is allowed" in page


@pytest.mark.parametrize("name", ["<script>", "a|b", "*x*", "[a](b)", "`c`", "&lt;", "# d", "~~e~~", "\\|"])
def test_names_show_as_they_are(name: str, case: MakeCase, parity: MakeParity) -> None:
    result = replace(parity(case(name, 99.0)), model=name, against=name)
    html = shown(verification_markdown(Verification(result, [f"verify {name}"])))
    escaped = name.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    assert f"parity of {escaped} against {escaped}</h2>" in html
    assert f"<td>{escaped}</td>\n</tr>" in html
    assert f"<li>ort-cpu, {escaped}: y: error" in html
    assert f"verify {escaped}\n</code>" in html


def test_a_long_list_is_cut_and_says_so(case: MakeCase, parity: MakeParity) -> None:
    page = verification_markdown(Verification(parity(*(case(f"case {n}", 99.0) for n in range(MOST_LINES + 7)))))
    assert page.count("\n- ort-cpu, case") == MOST_LINES
    assert "… and 7 more." in page


def test_what_a_bisection_found_is_shown(failed: ParityResult, bisection: Bisection) -> None:
    seen = unescape(shown(verification_markdown(Verification(failed, bisection=bisection))))
    assert "<h3>Where it went wrong</h3>" in seen
    assert bisection.reason in seen
    assert "<td>node</td>\n<td>node_gelu|1</td>" in seen
    assert "<td>own error</td>\n<td>292 units in the last place of 8 allowed at [1, 4]</td>" in seen
    assert "<td>and 2 more</td>" in seen
    assert "Where it went wrong" not in verification_markdown(Verification(failed))
