"""The examples as programs: what they find, what they print, and their exit status."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import ffn_export as fx
from ffn_export.runtimes.session_options import SessionSettings
from ffn_export.runtimes.threads import available_threads
from tests.embed.bundles import in_bfloat16, vector, with_identity, with_manifest, with_options, with_vector
from tests.embed.programs import EXAMPLES, PROGRAMS, Once, Program
from tests.native.provider import NAME, needs_provider

pytestmark = pytest.mark.integration

LINE = re.compile(r"y: largest difference (\S+), allowed (\S+)\n")
TWO_INPUTS = "two inputs"


def test_the_vectors_come_out(program: Program, bundle: Callable[[str], Path]) -> None:
    done = program.run(bundle("plain"))
    assert (done.returncode, done.stderr) == (0, "")
    found = LINE.fullmatch(done.stdout)
    assert found, done.stdout
    assert float(found[1]) < float(found[2])


def test_it_takes_the_processors_that_it_may_run_on(
    program: Program, bundle: Callable[[str], Path], tmp_path: Path
) -> None:
    everywhere = os.sched_getaffinity(0)
    assert _threads(program, bundle("plain"), tmp_path / "all") in {len(everywhere), available_threads()}
    os.sched_setaffinity(0, {min(everywhere)})  # of this thread, and of what it starts
    try:
        assert _threads(program, bundle("plain"), tmp_path / "one") == 1
    finally:
        os.sched_setaffinity(0, everywhere)


def _threads(program: Program, bundle: Path, scratch: Path) -> int:
    """Return the intra-op threads of a run; with one, ONNX Runtime makes no pool and its profile says nothing."""
    scratch.mkdir()
    pools = [kernel["thread_scheduling_stats"] for kernel in program.profile(bundle, scratch)]
    return max(1 + len(pool["sub_threads"]) if pool else 1 for pool in pools)


def test_what_differs_fails(program: Program, bundle: Callable[[str], Path], tmp_path: Path) -> None:
    good = bundle(TWO_INPUTS)
    expected = vector(good, "output")
    for number, value in enumerate((np.nan, expected.flat[-1] + 1e-3)):
        wrong = expected.copy()
        wrong.flat[-1] = value
        done = program.run(with_vector(good, tmp_path / f"wrong-{number}", "output", wrong))
        assert (done.returncode, done.stderr) == (1, "")
        assert LINE.fullmatch(done.stdout), done.stdout
    assert program.run(tmp_path / "wrong-1", "--tolerance", "0.1").returncode == 0


def test_nan_from_the_model_fails(program: Program, bundle: Callable[[str], Path], tmp_path: Path) -> None:
    good = bundle(TWO_INPUTS)
    numbers = vector(good, "input")
    numbers.flat[0] = np.nan  # the first row alone, so that finite differences come after it
    done = program.run(with_vector(good, tmp_path / "nan", "input", numbers), "--tolerance", "1e9")
    assert (done.returncode, done.stderr) == (1, "")
    assert "nan" in done.stdout.lower()


def test_another_shape_or_type_fails(program: Program, bundle: Callable[[str], Path], tmp_path: Path) -> None:
    expected = vector(bundle(TWO_INPUTS), "output")
    done = program.run(with_vector(bundle(TWO_INPUTS), tmp_path / "flat", "output", expected.reshape(-1)))
    assert (done.returncode, done.stderr) == (1, "")
    assert done.stdout.startswith("y: ")


def test_what_cannot_be_run_is_said_in_one_line(
    program: Program, bundle: Callable[[str], Path], tmp_path: Path
) -> None:
    good = bundle(TWO_INPUTS)
    foreign = with_manifest(good, tmp_path / "foreign", provider="CUDAExecutionProvider")
    broken = with_manifest(good, tmp_path / "broken")
    (broken / "manifest.json").write_text("{")
    unknown = with_manifest(good, tmp_path / "unknown")
    (unknown / "model.onnx").unlink()
    level = {"graph_optimization_level": "basic"}
    bare = with_manifest(good, tmp_path / "without-entries", session_options=level)
    for bundle_directory in (tmp_path / "missing", foreign, broken, unknown, bare):
        done = program.run(bundle_directory)
        assert (done.returncode, done.stdout) == (2, ""), bundle_directory
        assert re.fullmatch(r".+\n", done.stderr), done.stderr


def test_bad_usage(program: Program, bundle: Callable[[str], Path]) -> None:
    for arguments in ((), (bundle(TWO_INPUTS), "another"), (bundle(TWO_INPUTS), "--nonesuch")):
        done = program.run(*arguments)
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr


def test_a_level_of_another_name(program: Program, bundle: Callable[[str], Path], tmp_path: Path) -> None:
    settings = SessionSettings("highest", {})  # type: ignore[arg-type]
    done = program.run(with_options(bundle(TWO_INPUTS), tmp_path / "copy", settings))
    assert done.returncode == 2
    assert "highest" in done.stderr


def test_float16(program: Program, bundle: Callable[[str], Path], tmp_path: Path) -> None:
    done = program.run(bundle("half"))
    assert (done.returncode, done.stderr) == (0, "")
    assert LINE.fullmatch(done.stdout), done.stdout
    expected = vector(bundle("half"), "output")
    for number, value in enumerate((np.nan, expected.flat[-1] + np.float16(0.1), -np.inf)):
        wrong = expected.copy()
        wrong.flat[-1] = value
        assert program.run(with_vector(bundle("half"), tmp_path / f"{number}", "output", wrong)).returncode == 1


@pytest.mark.parametrize("name", ["python", "c", "cpp"])
def test_bfloat16(once: Once, bundle: Callable[[str], Path], tmp_path: Path, name: str) -> None:
    program, narrow = PROGRAMS[name](once), in_bfloat16(bundle("half"), tmp_path / "narrow")
    done = program.run(narrow)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("y: largest difference 0, allowed ")
    expected = vector(narrow, "output")
    expected.flat[-1] *= 1.1
    assert program.run(with_vector(narrow, tmp_path / "wrong", "output", expected)).returncode == 1


def test_bfloat16_is_not_for_javascript(once: Once, bundle: Callable[[str], Path], tmp_path: Path) -> None:
    done = PROGRAMS["node"](once).run(in_bfloat16(bundle("half"), tmp_path / "narrow"))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "tensor x is in bfloat16, which ONNX Runtime's JavaScript does not take\n"


def test_the_tolerance_is_the_manifests(program: Program, bundle: Callable[[str], Path], tmp_path: Path) -> None:
    few_bits = program.run(bundle("few bits"))
    assert few_bits.returncode == 0
    assert few_bits.stdout.startswith("y: L2 norm of the difference ")
    tolerances = json.loads((bundle(TWO_INPUTS) / "manifest.json").read_text())["tolerances"]
    expected = vector(bundle(TWO_INPUTS), "output")
    expected.flat[0] += 0.5
    for atol, status in ((0.6, 0), (0.4, 1)):
        declared = {**tolerances, "closeness": {"*": {"atol": atol, "rtol": 0.0}}}
        copied = with_manifest(bundle(TWO_INPUTS), tmp_path / f"{atol}", tolerances=declared)
        wrong = with_vector(copied, tmp_path / f"wrong-{atol}", "output", expected)
        done = program.run(wrong)
        assert done.returncode == status
        assert LINE.fullmatch(done.stdout), done.stdout


@pytest.mark.parametrize("name", ["c", "cpp"])
def test_a_missing_library(once: Once, bundle: Callable[[str], Path], name: str) -> None:
    done = PROGRAMS[name](once).run(bundle(TWO_INPUTS), ONNXRUNTIME_LIBRARY="/nonesuch/libonnxruntime.so")
    assert (done.returncode, done.stdout) == (3, "")
    assert "set ONNXRUNTIME_LIBRARY" in done.stderr


def test_the_python_example_needs_nothing_of_this_package() -> None:
    code = "import sys, run_bundle; sys.exit(bool({'ffn_export', 'torch'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], cwd=EXAMPLES / "python", check=False).returncode == 0


def test_the_python_example_with_this_package(bundle: Callable[[str], Path], tmp_path: Path) -> None:
    program = Program((sys.executable, str(EXAMPLES / "python" / "load_bundle.py")))
    done = program.run(bundle(TWO_INPUTS))
    assert (done.returncode, done.stderr) == (0, "")
    assert LINE.fullmatch(done.stdout)
    wrong = with_vector(bundle(TWO_INPUTS), tmp_path / "wrong", "output", vector(bundle(TWO_INPUTS), "output") + 1)
    assert program.run(wrong).returncode == 1
    other_model = with_identity(bundle("plain"), tmp_path / "other")
    for broken in (other_model, tmp_path / "missing"):
        done = program.run(broken)
        assert (done.returncode, done.stdout) == (2, "")
        assert re.fullmatch(r".+\n", done.stderr)
    assert program.run().returncode == 2
    assert program.run(bundle("few bits")).returncode == 0
    assert program.run(bundle("few bits"), "--tolerance", "1e-5").returncode == 1


@pytest.fixture(scope="module")
def native(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("native")
    return fx.build("d2l-ffn", target="ort-native", directory=directory, fast=True, bench_budget=0.0).directory


@pytest.mark.parametrize("name", [name for name in PROGRAMS if name != "python"])  # which takes installed kernels
def test_nodes_of_native_kernels_run_by_their_bodies(name: str, once: Once, native: Path, tmp_path: Path) -> None:
    bundle = with_manifest(native, tmp_path / "bundle", provider=NAME)
    assert PROGRAMS[name](once).executed(bundle, tmp_path) == ["MatMul", "Add", "Relu", "MatMul", "Add"]


@needs_provider
@pytest.mark.parametrize("name", ["python", "c", "cpp"])
def test_native_kernels_compute_them(name: str, once: Once, native: Path, tmp_path: Path) -> None:
    import onnxruntime_ep_ffn

    program = PROGRAMS[name](once)
    library = {"ONNXRUNTIME_EP_FFN_LIBRARY": onnxruntime_ep_ffn.get_library_path()}
    with_library = replace(program, environment={**program.environment, **library})
    assert with_library.executed(native, tmp_path) == ["FeedForward"]
