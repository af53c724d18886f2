"""The pytest plugin, in runs of pytest of their own."""

from __future__ import annotations

import inspect
import json
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import ffn_export as fx
from ffn_export.core import onnx_file

pytest_plugins = ["pytester"]

PLUGIN = "ffn_export.pytest_plugin"


def make(approximate: str = "none") -> torch.nn.Module:
    torch.manual_seed(0)
    gelu = torch.nn.GELU(approximate)
    return torch.nn.Sequential(torch.nn.Linear(4, 8), gelu, torch.nn.Linear(8, 4)).eval()


@pytest.fixture(scope="session")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a right model, one with the wrong kind of GELU, and a bundle."""
    folder = tmp_path_factory.mktemp("models")
    inputs = {"x": "float32[batch,4]"}
    for name, approximate in (("right", "none"), ("wrong", "tanh")):
        onnx_file.save(fx.export(make(approximate), inputs), folder / f"{name}.onnx")
    fx.build("d2l-ffn", directory=folder, name="bundle", bench_budget=0)
    return folder


@pytest.fixture
def inner(pytester: pytest.Pytester, models: Path, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """A project whose tests use the plugin, whether this environment knows its entry point or not."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv("MODELS", str(models))
    pytester.makepyfile(tiny="import torch\n\n\n" + inspect.getsource(make))
    pytester.makeini("[pytest]\naddopts = --strict-markers -p no:cacheprovider")
    return pytester


def run(inner: pytest.Pytester, *arguments: str) -> pytest.RunResult:
    return inner.runpytest_inprocess("-p", PLUGIN, *arguments)


HEAD = """
    import os
    from pathlib import Path
    import pytest
    from tiny import make
    MODELS = Path(os.environ["MODELS"])
"""


def write(inner: pytest.Pytester, tests: str) -> None:
    inner.makepyfile(test_model=inspect.cleandoc(HEAD) + "\n\n" + inspect.cleandoc(tests))


@pytest.mark.slow
def test_a_module_a_spec_a_file_and_a_bundle(inner: pytest.Pytester) -> None:
    write(
        inner,
        """
        def test_module(assert_parity):
            result = assert_parity(make(), MODELS / "right.onnx")
            assert "ort-cpu" in result.judged

        def test_spec(assert_parity):
            assert_parity("tiny:make", str(MODELS / "right.onnx"), inputs={"x": "float32[batch,4]"})

        def test_other_onnx(assert_parity):
            assert_parity(MODELS / "right.onnx", MODELS / "right.onnx")

        def test_bundle(assert_parity):
            assert_parity(None, MODELS / "bundle")

        def test_without_the_fixture():
            from ffn_export.testing import assert_parity
            assert_parity(make(), MODELS / "right.onnx", runtimes=["ort-cpu"])
        """,
    )
    run(inner).assert_outcomes(passed=5)


@pytest.mark.slow
def test_a_failure_reads_well(inner: pytest.Pytester) -> None:
    write(
        inner,
        """
        def test_it(assert_parity):
            assert_parity(make(), MODELS / "wrong.onnx")
        """,
    )
    done = run(inner)
    done.assert_outcomes(failed=1)
    done.stdout.fnmatch_lines(
        [
            "assert_parity = <assert_parity on all runtimes>",
            '>       assert_parity(make(), MODELS / "wrong.onnx")',
            "E       AssertionError: parity of wrong.onnx against *Sequential failed",
            "E         ort-cpu: * failed*; worst is batch=*: error * units in the last place, * times *",
            "E       first failures:",
            "E         ort-cpu, batch=*",
            "E         … and * more",
            "E       replay: pytest test_model.py::test_it",
        ]
    )
    text = done.stdout.str()
    assert text.count("AssertionError") == 3  # where it is raised, the line under it, the summary
    for noise in ("ffn_export/testing.py", "ffn_export/pytest_plugin.py", "raise AssertionError", "def require"):
        assert noise not in text


def test_a_failure_of_files_is_replayed_by_the_command_line(
    inner: pytest.Pytester, models: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    write(
        inner,
        """
        def test_it(assert_parity):
            assert_parity("tiny:make", MODELS / "wrong.onnx", inputs={"x": "float32[batch,4]"}, runtimes=["ort-cpu"])
        """,
    )
    done = run(inner)
    # where CI is set, pytest's summary repeats the whole message
    (command,) = {line.partition("replay: ")[2] for line in done.outlines if "replay:" in line}
    words = shlex.split(command)
    assert words[:2] == ["ffn-export", "verify"]
    assert words[2:] == [
        str(models / "wrong.onnx"),
        "--against",
        "tiny:make",
        "--input",
        "x:float32[batch,4]",
        "--runtime",
        "ort-cpu",
    ]
    from ffn_export.cli.main import run as ffn_export

    monkeypatch.syspath_prepend(inner.path)
    capfd.readouterr()
    assert ffn_export(words[1:]) == 1
    assert "parity failed" in capfd.readouterr().err


@pytest.mark.slow
def test_the_marker_gives_defaults_that_arguments_replace(inner: pytest.Pytester) -> None:
    write(
        inner,
        """
        pytestmark = pytest.mark.parity(atol=1.0)

        def test_loose(assert_parity):
            assert_parity(make(), MODELS / "wrong.onnx")

        @pytest.mark.parity(atol=1e-9)
        def test_its_own_marker_is_nearer(assert_parity):
            with pytest.raises(AssertionError, match="atol 1e-09"):
                assert_parity(make(), MODELS / "wrong.onnx")

        def test_an_argument_is_nearest(assert_parity):
            with pytest.raises(AssertionError, match="rtol 1e-08"):
                assert_parity(make(), MODELS / "wrong.onnx", rtol=1e-8)
        """,
    )
    run(inner).assert_outcomes(passed=3)


def test_runtimes_of_the_marker_run_the_test_once_each(inner: pytest.Pytester) -> None:
    write(
        inner,
        """
        @pytest.mark.parity(runtimes=["ort-cpu", "reference"])
        def test_it(assert_parity, parity_runtime):
            result = assert_parity(make(), MODELS / "right.onnx")
            assert result.judged == (parity_runtime,)
        """,
    )
    done = run(inner, "-v")
    done.assert_outcomes(passed=2)
    done.stdout.fnmatch_lines(["*test_it[[]ort-cpu[]] PASSED*", "*test_it[[]reference[]] PASSED*"])


def test_an_unavailable_runtime_skips_what_named_it(inner: pytest.Pytester) -> None:
    # `ort-cuda` is available on a machine with a GPU; `torch` cannot run an ONNX file without its source anywhere.
    write(
        inner,
        """
        @pytest.mark.parity(runtimes=["ort-cpu", "torch"])
        def test_it(assert_parity):
            assert_parity(MODELS / "right.onnx", MODELS / "right.onnx")
        """,
    )
    done = run(inner, "-rs")
    done.assert_outcomes(passed=1, skipped=1)
    done.stdout.fnmatch_lines(["SKIPPED [[]1[]] test_model.py:*: runtime 'torch' is not available here: *"])


def test_the_command_line_names_the_runtime_whatever_the_tests_say(inner: pytest.Pytester) -> None:
    write(
        inner,
        """
        @pytest.mark.parity(runtimes=["torch"])
        def test_it(assert_parity):
            assert_parity(MODELS / "right.onnx", MODELS / "right.onnx")
        """,
    )
    run(inner, "--parity-runtime", "ort-cpu", "--parity-runtime", "reference").assert_outcomes(passed=2)
    done = run(inner, "--parity-runtime", "torch")
    done.assert_outcomes(failed=1)
    done.stdout.fnmatch_lines(["--parity-runtime: runtime 'torch' is not available here: *"])
    done.stdout.no_fnmatch_line("During handling of the above exception*")


def test_the_command_line_names_the_runtime_of_a_test_case_too(inner: pytest.Pytester) -> None:
    """Which pytest does not run once for each of several runtimes."""
    write(
        inner,
        """
        import unittest

        class TestModel(unittest.TestCase):
            @pytest.fixture(autouse=True)
            def _parity(self, assert_parity):
                self.assert_parity = assert_parity

            def test_it(self):
                result = self.assert_parity(MODELS / "right.onnx", MODELS / "right.onnx")
                assert result.judged == ("reference",)
        """,
    )
    run(inner, "--parity-runtime", "reference").assert_outcomes(passed=1)
    run(inner, "--parity-runtime", "torch").assert_outcomes(failed=1)


def test_a_bound_of_a_nearer_marker_takes_the_place_of_any(inner: pytest.Pytester) -> None:
    write(
        inner,
        """
        import ffn_export as fx
        pytestmark = pytest.mark.parity(tolerances=fx.Tolerances(relative_l2=1e-9))

        @pytest.mark.parity(atol=1.0)
        def test_it(assert_parity):
            assert_parity(make(), MODELS / "wrong.onnx")
        """,
    )
    run(inner).assert_outcomes(passed=1)


def test_a_marker_of_this_name_on_other_tests_is_another_s(inner: pytest.Pytester) -> None:
    write(inner, "@pytest.mark.parity('even')\ndef test_it(): pass")
    run(inner).assert_outcomes(passed=1)


def test_reports_lie_where_pytest_was_started_whatever_the_test_does(inner: pytest.Pytester) -> None:
    write(
        inner,
        """
        def test_it(assert_parity, tmp_path, monkeypatch):
            monkeypatch.chdir(tmp_path)
            assert_parity(make(), MODELS / "right.onnx")
        """,
    )
    run(inner, "--parity-report", "reports").assert_outcomes(passed=1)
    assert (inner.path / "reports" / "test_model.py-test_it.json").is_file()


def test_a_file_in_the_place_of_the_reports_stops_the_run_before_it_begins(inner: pytest.Pytester) -> None:
    write(inner, "def test_it(): pass")
    result = run(inner, "--parity-report", "test_model.py")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*--parity-report: cannot write to *: *test_model.py is a file, name a directory"])


def test_a_misspelt_runtime_stops_the_run_before_it_begins(inner: pytest.Pytester) -> None:
    write(inner, "def test_it(): pass")
    done = run(inner, "--parity-runtime", "ort-cup")
    assert done.ret == pytest.ExitCode.USAGE_ERROR
    done.stderr.fnmatch_lines(["ERROR: --parity-runtime: unknown runtime 'ort-cup'; did you mean 'ort-cpu'?*"])


@pytest.mark.parametrize(
    ("marker", "says"),
    [
        ("parity(runtime=['ort-cpu'])", "no argument 'runtime'; did you mean 'runtimes'?"),
        ("parity('ort-cpu')", "takes named arguments only"),
        ("parity(runtimes=3)", "@pytest.mark.parity: runtimes are a list of names such as ['ort-cpu'], got 3"),
        ("parity(runtimes='ort-cpu')", "runtimes are a list of names such as ['ort-cpu'], got 'ort-cpu'"),
        ("parity(tolerances=3)", "tolerances are Tolerances, such as Tolerances(relative_l2=0.02), got 3"),
        ("parity(failures=3)", "failures is the path of a directory, got 3"),
    ],
)
def test_a_marker_that_says_nothing_stops_the_run(marker: str, says: str, inner: pytest.Pytester) -> None:
    write(inner, f"@pytest.mark.{marker}\ndef test_it(assert_parity): pass")
    done = run(inner)
    assert done.ret == pytest.ExitCode.USAGE_ERROR
    assert says in done.stderr.str()


@pytest.mark.slow
def test_a_marker_of_a_test_that_asks_for_the_fixture_late_is_checked_then(inner: pytest.Pytester) -> None:
    write(
        inner,
        """
        @pytest.mark.parity("ort-cpu")
        def test_it(request):
            request.getfixturevalue("assert_parity")
        """,
    )
    done = run(inner)
    done.assert_outcomes(failed=1)
    assert "takes named arguments only" in done.stdout.str()


def test_tests_are_selected_by_the_marker_that_the_fixture_gives(inner: pytest.Pytester) -> None:
    write(
        inner,
        """
        def test_parity(assert_parity): pass
        def test_other(): pass
        """,
    )
    run(inner, "-m", "parity").assert_outcomes(passed=1, deselected=1)
    done = run(inner, "--markers")
    done.stdout.fnmatch_lines(["@pytest.mark.parity(inputs=..., *): defaults of the fixture assert_parity*"])


@pytest.mark.slow
def test_reports_are_written_whatever_the_verdict(inner: pytest.Pytester) -> None:
    write(
        inner,
        """
        def test_it(assert_parity):
            assert_parity(make(), MODELS / "right.onnx")
            assert_parity(make(), MODELS / "wrong.onnx")
        """,
    )
    run(inner, "--parity-report", "reports").assert_outcomes(failed=1)
    reports = inner.path / "reports"
    found = {path.name: json.loads(path.read_text())["passed"] for path in reports.glob("*.json")}
    assert found == {"test_model.py-test_it.json": True, "test_model.py-test_it-2.json": False}
    assert list(reports.glob("test_model.py-test_it-2/*/test_data_set_0/input_0.pb"))  # of what failed


def test_the_plugin_is_light() -> None:
    """Every run of pytest imports it, so it may not cost those that verify nothing."""
    code = f"import {PLUGIN}, sys; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert not {"torch", "numpy", "onnx", "onnx_ir", "onnxruntime", "scipy", "rich", "click"} & set(done.stdout.split())


@pytest.mark.slow
def test_an_installation_brings_the_plugin(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "--help"], cwd=tmp_path, check=True, capture_output=True, text=True
    )
    assert "--parity-runtime=NAME" in done.stdout
