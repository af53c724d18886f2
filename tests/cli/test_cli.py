"""The command line as a user meets it: what it prints where, and its exit status."""

from __future__ import annotations

import itertools
import json
import os
import re
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import onnx
import pytest

from ffn_export.cli.main import COMMANDS, run
from ffn_export.modules.presets import PRESETS
from tests.parity.faults.bases import BASES

Capture = pytest.CaptureFixture[str]
_COUNT = itertools.count()


def fails(capfd: Capture, status: int, *arguments: str) -> str:
    """Run a command that must fail and return its one line."""
    assert run(list(arguments)) == status
    lines = capfd.readouterr().err.strip().splitlines()
    assert lines, "nothing was said"
    assert lines[-1].startswith("ffn-export: ")
    assert "Traceback" not in "\n".join(lines)
    return lines[-1]


@pytest.fixture
def factory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], str]:
    """Write a module with a ``make`` factory into the current directory and return its SPEC."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)

    def write(code: str) -> str:
        name = f"user_module_{next(_COUNT)}"  # a name that this process has not imported yet
        (tmp_path / f"{name}.py").write_text("import torch\nfrom torch import nn\n" + code)
        return f"{name}:make"

    return write


@pytest.mark.slow
def test_the_package_is_the_command_too() -> None:
    listed = subprocess.run([sys.executable, "-m", "ffn_export", "list"], capture_output=True, text=True, check=True)
    assert all(name in listed.stdout for name in PRESETS)
    wrong = subprocess.run([sys.executable, "-m", "ffn_export", "bild"], capture_output=True, text=True, check=False)
    assert (wrong.returncode, "did you mean 'build'?" in wrong.stderr) == (2, True)


def test_help_shows_every_command_with_an_example(capfd: Capture) -> None:
    assert run(["--help"]) == 0
    text = capfd.readouterr().out
    for name in COMMANDS:
        assert f"  {name} " in text
        assert run([name, "--help"]) == 0
        assert f"ffn-export {name}" in capfd.readouterr().out


def test_help_and_import_load_nothing_heavy() -> None:
    heavy = "{'torch', 'onnx', 'onnx_ir', 'onnxruntime', 'numpy', 'scipy'}"
    for code in (
        "import sys, ffn_export",
        "import sys; from ffn_export.cli.main import run; run(['--help']); run(['build', '--help'])",
    ):
        check = f"{code}; sys.exit(', '.join({heavy} & set(sys.modules)) or None)"
        result = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=False)
        assert result.returncode == 0, result.stderr


def test_list_prints_every_preset_whole_to_standard_output(capfd: Capture) -> None:
    assert run(["list"]) == 0
    captured = capfd.readouterr()
    assert captured.err == ""
    for preset in PRESETS.values():
        assert preset.name in captured.out
    assert "x:float32[batch,seq,768]" in captured.out
    assert run(["list", "--json", "-"]) == 0
    assert [each["name"] for each in json.loads(capfd.readouterr().out)["presets"]] == list(PRESETS)


@pytest.mark.slow
def test_build_prints_what_was_exported_fused_verified_and_timed(tmp_path: Path, capfd: Capture) -> None:
    assert run(["build", "d2l-ffn", "-o", str(tmp_path)]) == 0
    captured = capfd.readouterr()
    assert captured.out == ""
    printed = " ".join(captured.err.split())  # lines end at 100 columns, wherever a reason makes them
    for words in (
        "feed_forward:0",
        "MatMul Add Relu MatMul Add",
        "passed",
        "torch",
        "ort-cpu",
        "same function",
        "feed-forward 1 already optimal",
        f"open {tmp_path / 'd2l-ffn' / 'report.html'}",
    ):
        assert words in printed
    assert re.search(r"at [\d, and]+ tokens?\b", printed), printed
    assert run(["verify", str(tmp_path / "d2l-ffn")]) == 0


@pytest.mark.slow
def test_quiet_is_silent(tmp_path: Path, capfd: Capture) -> None:
    assert run(["build", "d2l-ffn", "-o", str(tmp_path), "--quiet"]) == 0
    assert run(["verify", str(tmp_path / "d2l-ffn"), "--quiet"]) == 0
    assert capfd.readouterr() == ("", "")


@pytest.mark.slow
def test_export_fuse_verify_by_hand(tmp_path: Path, capfd: Capture) -> None:
    plain, fused, report = tmp_path / "plain.onnx", tmp_path / "fused.onnx", tmp_path / "report.json"
    swiglu = BASES["swiglu"]
    assert run(["export", swiglu.spec, "--input", *swiglu.inputs, "-o", str(plain), "--opset", "18"]) == 0
    assert run(["fuse", str(plain), "-o", str(fused), "--report", str(report), "--require-fusion", "norm=1"]) == 0
    data = json.loads(report.read_text())
    assert data["rules"] == {"norm-scale": 1, "quick-gelu": 1, "rms-norm": 1}
    assert [site["status"] for site in data["sites"]] == ["rewritten", "rewritten"]
    junit, result = tmp_path / "parity.xml", tmp_path / "parity.json"
    arguments = ["verify", str(fused), *swiglu.arguments, "--junit", str(junit), "--json", str(result)]
    assert run(arguments) == 0
    suites = ET.parse(junit).getroot()
    assert int(suites.attrib["tests"]) >= 11
    assert int(suites.attrib["failures"]) == 0
    assert json.loads(result.read_text())["passed"] is True
    capfd.readouterr()
    assert run(["verify", str(fused), "--against", str(plain)]) == 0, capfd.readouterr().err


@pytest.mark.slow
def test_json_goes_to_standard_output_alone(tmp_path: Path, capfd: Capture) -> None:
    run(["export", "d2l-ffn", "-o", str(tmp_path / "m.onnx")])
    capfd.readouterr()
    assert run(["verify", str(tmp_path / "m.onnx"), "--against", "d2l-ffn", "--json", "-"]) == 0
    assert json.loads(capfd.readouterr().out)["passed"] is True


@pytest.mark.slow
def test_fuse_always_writes_and_the_gate_decides_the_status(tmp_path: Path, capfd: Capture) -> None:
    run(["export", "d2l-ffn", "-o", str(tmp_path / "m.onnx")])
    line = fails(
        capfd, 1, "fuse", str(tmp_path / "m.onnx"), "-o", str(tmp_path / "f.onnx"), "--require-fusion", "norm=1"
    )
    assert "0 of 0 norm sites are in the target's form, 1 required" in line
    onnx.checker.check_model(onnx.load(tmp_path / "f.onnx"))


@pytest.mark.slow
def test_misspelt_names_are_answered_with_the_nearest(tmp_path: Path, capfd: Capture) -> None:
    assert "did you mean 'bert-ffn'?" in fails(capfd, 2, "build", "bert-fnn", "-o", str(tmp_path))
    assert "did you mean 'build'?" in fails(capfd, 2, "biuld", "bert-ffn")
    assert "did you mean 'ort-cpu'?" in fails(capfd, 2, "build", "d2l-ffn", "-o", str(tmp_path), "--target", "ort-cup")
    assert "did you mean 'ort-cpu'?" in fails(capfd, 2, "build", "d2l-ffn", "-o", str(tmp_path), "--runtime", "ort-cup")
    assert "did you mean 'feed_forward'?" in fails(capfd, 2, "build", "d2l-ffn", "--require-fusion", "feedforward=1")
    assert "--opset" in fails(capfd, 2, "build", "d2l-ffn", "--opsett", "20")
    assert os.listdir(tmp_path) == []


def test_bad_files_are_bad_input(tmp_path: Path, capfd: Capture) -> None:
    text = tmp_path / "text.onnx"
    text.write_text("this is no model\n")
    assert "no such file" in fails(capfd, 2, "fuse", str(tmp_path / "gone.onnx"), "-o", str(tmp_path / "f.onnx"))
    assert "is no ONNX model" in fails(capfd, 2, "fuse", str(text), "-o", str(tmp_path / "f.onnx"))
    assert "is no ONNX model" in fails(capfd, 2, "verify", str(text), "--against", "bert-ffn")
    (tmp_path / "empty").mkdir()
    assert "is no bundle" in fails(capfd, 2, "verify", str(tmp_path / "empty"))
    assert not (tmp_path / "f.onnx").exists()


@pytest.mark.slow
def test_a_bare_model_needs_something_to_be_verified_against(tmp_path: Path, capfd: Capture) -> None:
    run(["export", "d2l-ffn", "-o", str(tmp_path / "m.onnx")])
    assert "--against" in fails(capfd, 2, "verify", str(tmp_path / "m.onnx"))


@pytest.mark.slow
def test_a_model_that_differs_from_its_spec_is_a_failed_gate(tmp_path: Path, capfd: Capture) -> None:
    run(["export", "d2l-ffn", "-o", str(tmp_path / "m.onnx")])
    other = ("--against", "d2l-ffn", "--seed", "5")
    assert "parity failed" in fails(capfd, 1, "verify", str(tmp_path / "m.onnx"), *other)


def test_an_unwritable_place_is_refused(tmp_path: Path, capfd: Capture) -> None:
    (tmp_path / "file").write_text("")
    inside = str(tmp_path / "file" / "x")
    assert "cannot write to" in fails(capfd, 2, "build", "d2l-ffn", "-o", inside)
    assert "cannot write to" in fails(capfd, 2, "export", "d2l-ffn", "-o", f"{inside}/m.onnx")
    assert "is a directory" in fails(capfd, 2, "export", "d2l-ffn", "-o", str(tmp_path))


@pytest.mark.slow
def test_a_runtime_named_but_not_able_to_run_is_status_3(tmp_path: Path, capfd: Capture) -> None:
    run(["export", "d2l-ffn", "-o", str(tmp_path / "m.onnx")])
    arguments = ("verify", str(tmp_path / "m.onnx"), "--against", str(tmp_path / "m.onnx"), "--runtime", "torch")
    assert "runtime 'torch' is not available here" in fails(capfd, 3, *arguments)


@pytest.mark.slow
def test_users_modules(factory: Callable[[str], str], tmp_path: Path, capfd: Capture) -> None:
    spec = factory(
        "class Pair(nn.Module):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.a, self.b = nn.Linear(6, 8), nn.Linear(8, 6)\n"
        "    def forward(self, x, mask=None, *, scale=None):\n"
        "        h = torch.nn.functional.silu(self.a(x))\n"
        "        h = h if scale is None else h * scale\n"
        "        y = self.b(h)\n"
        "        return {'hidden': h, 'result': y if mask is None else y * mask}\n"
        "def make():\n"
        "    return Pair()\n"
    )
    inputs = ["--input", "x:float32[batch,seq,6]", "--input", "scale:float32[8]"]
    assert run(["build", spec, "-o", "out", *inputs]) == 0, capfd.readouterr().err
    session = onnx.load("out/make/model.onnx").graph
    assert [v.name for v in session.input] == ["x", "scale"]
    assert [v.name for v in session.output] == ["hidden", "result"]
    capfd.readouterr()
    assert run(["verify", "out/make"]) == 0
    assert f"the manifest of make names '{spec}' as its source" in capfd.readouterr().err
    assert run(["verify", "out/make", "--trust"]) == 0
    assert "test vectors" not in capfd.readouterr().err
    # The factory is gone: the bundle is still verified, by its test vectors.
    (tmp_path / f"{spec.partition(':')[0]}.py").unlink()
    sys.modules.pop(spec.partition(":")[0])
    assert run(["verify", "out/make", "--trust"]) == 0
    said = capfd.readouterr().err
    assert "test vectors" in said
    assert "judged by the recorded case alone: cannot import" in said
    # It is timed under its own options too, without the module.
    words = ["bench", "out/make", "--tokens", "8", "--trust"]
    assert run([*words, "--json", "times.json"]) == 0, capfd.readouterr().err
    timed = json.loads(Path("times.json").read_text())
    assert timed["baseline"] == ""
    assert "cannot import" in timed["unavailable"]["torch"]
    assert "cannot import" in fails(capfd, 2, *words, "--max-ratio", "2")


def test_faulty_factories_are_one_line(factory: Callable[[str], str], capfd: Capture) -> None:
    line = fails(capfd, 2, "build", "no_such_package.models:make", "--input", "x:float32[batch,4]")
    assert "cannot import 'no_such_package.models'" in line
    spec = factory("def make():\n    raise ValueError('no weights here')\n")
    assert "raised ValueError: no weights here" in fails(capfd, 2, "build", spec, "--input", "x:float32[batch,4]")
    spec = factory("def make():\n    return nn.Linear(4, 4)\n")
    assert "add --input" in fails(capfd, 2, "build", spec)
    assert "does not parse" in fails(capfd, 2, "build", spec, "--input", "x=float32[batch,4]")
    assert "unknown dtype 'float'" in fails(capfd, 2, "build", spec, "--input", "x:float[batch,4]")
    assert "forward failed" in fails(capfd, 2, "build", spec, "--input", "x:float32[batch,5]")
    assert "forward failed" in fails(capfd, 2, "build", spec, "--input", "x:float64[batch,4]")
    assert "opset 17 is not written" in fails(capfd, 2, "build", spec, "--input", "x:float32[batch,4]", "--opset", "17")
    spec = factory("class M(nn.Module):\n    def forward(self, x):\n        return x + torch.ones(3, 4)\nmake = M\n")
    assert "specialised to 3" in fails(capfd, 2, "build", spec, "--input", "x:float32[batch,seq,4]")


@pytest.mark.slow
@pytest.mark.parametrize("status", [0, 4])
def test_a_forward_that_ends_the_program_is_no_success(
    status: int, factory: Callable[[str], str], tmp_path: Path, capfd: Capture
) -> None:
    spec = factory(
        "class Ends(nn.Module):\n"
        "    def forward(self, x):\n"
        f"        raise SystemExit({status})\n"
        "def make():\n"
        "    return Ends()\n"
    )
    out = tmp_path / "o.onnx"
    assert run(["export", spec, "--input", "x:float32[batch,4]", "-o", str(out)]) == 2
    assert f"ended the program with {status}" in capfd.readouterr().err
    assert not out.exists()


def test_sizes_that_the_module_itself_refuses_are_shown_and_no_failure(
    factory: Callable[[str], str], capfd: Capture
) -> None:
    spec = factory("class M(nn.Module):\n    def forward(self, x):\n        return x.reshape(3, -1) * 2\nmake = M\n")
    assert run(["build", spec, "-o", "out", "--input", "x:float32[batch,seq,4]"]) == 0
    assert "is invalid for input of size" in " ".join(capfd.readouterr().err.split())


def test_debug_shows_the_traceback(capfd: Capture) -> None:
    assert run(["build", "no_such:make", "--input", "x:float32[batch,4]", "--debug"]) == 2
    assert "Traceback" in capfd.readouterr().err


@pytest.mark.slow
def test_inputs_of_an_npz_are_verified_as_well(tmp_path: Path, capfd: Capture) -> None:
    run(["export", "d2l-ffn", "-o", str(tmp_path / "m.onnx")])
    np.savez(tmp_path / "x.npz", x=np.ones((3, 7, 4), np.float32))
    arguments = ["verify", str(tmp_path / "m.onnx"), "--against", "d2l-ffn", "--json", "-"]
    capfd.readouterr()
    assert run([*arguments, "--samples", str(tmp_path / "x.npz")]) == 0
    cases = json.loads(capfd.readouterr().out)["cases"]
    assert cases[-1]["case"] == "given inputs"
    assert cases[-1]["sizes"] == {"batch": 3, "seq": 7}
    np.savez(tmp_path / "y.npz", y=np.ones((3, 7, 4), np.float32))
    assert "the inputs are x" in fails(capfd, 2, *arguments, "--samples", str(tmp_path / "y.npz"))
    (tmp_path / "z.npz").write_text("no archive")
    assert "is no .npz file" in fails(capfd, 2, *arguments, "--samples", str(tmp_path / "z.npz"))
    assert "it is no regular file" in fails(capfd, 2, *arguments, "--samples", str(tmp_path))


@pytest.mark.slow
@pytest.mark.exhaustive  # from another directory and process in every run, by tests of the exporter
def test_the_same_export_twice_gives_the_same_bytes(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        command = [sys.executable, "-m", "ffn_export.cli.main", "export", "d2l-ffn", "-o", "m.onnx"]
        subprocess.run(command, cwd=tmp_path / name, check=True, capture_output=True)
    assert (tmp_path / "a" / "m.onnx").read_bytes() == (tmp_path / "b" / "m.onnx").read_bytes()


@pytest.mark.integration
@pytest.mark.parametrize(
    "number",
    [signal.SIGINT, *(pytest.param(each, marks=pytest.mark.exhaustive) for each in (signal.SIGTERM, signal.SIGHUP))],
)
def test_ctrl_c_and_a_cancelled_job_say_so_and_leave_nothing(number: signal.Signals, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "ffn_export.cli.main", "build", "d2l-ffn", "-o", str(tmp_path)]
    heard = partial(signal.signal, number, signal.SIG_DFL)  # also where a shell started all this in background
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, preexec_fn=heard)  # noqa: PLW1509 - no threads here
    assert process.stderr is not None
    for line in process.stderr:
        if "verifying" in line:
            break
    time.sleep(0.2)
    process.send_signal(number)
    rest = process.stderr.read()
    assert process.wait(60) == 130
    assert "ffn-export: interrupted" in rest
    assert "Traceback" not in rest
    assert os.listdir(tmp_path) == []


def test_ctrl_c_when_all_is_done_changes_nothing() -> None:
    # What is registered first runs last, so the signal comes while the interpreter clears up.
    code = "import atexit, os, signal; atexit.register(os.kill, os.getpid(), signal.SIGINT)\n"
    code += "signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # a shell's background ignores it
    code += "from ffn_export.cli.main import main; main(['list'])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (result.returncode, result.stderr) == (0, "")
    assert "bert-ffn" in result.stdout


@pytest.mark.integration
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no device that is always full")
@pytest.mark.parametrize("arguments", ["list", "inspect m.onnx --json -"])
def test_a_disk_that_is_full_is_one_line(arguments: str, fused_file: Callable[..., Path]) -> None:
    arguments = arguments.replace("m.onnx", str(fused_file("d2l-ffn")))
    command = f"{sys.executable} -m ffn_export.cli.main {arguments} > /dev/full"
    result = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert result.returncode == 2
    assert result.stderr == "ffn-export: cannot write standard output: No space left on device\n"
    missing = f"{sys.executable} -m ffn_export.cli.main inspect missing.onnx 2> /dev/full"
    assert subprocess.run(["bash", "-c", missing], check=False).returncode == 2


def test_a_reader_that_goes_away_is_no_error() -> None:
    command = f"{sys.executable} -m ffn_export.cli.main list | head -1"
    result = subprocess.run(["bash", "-o", "pipefail", "-c", command], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.integration
@pytest.mark.parametrize(
    ("model", "rest", "expected"),
    [
        ("other", "--json -", 1),
        ("same", "--json result.json 2>&1", 0),
        pytest.param("same", "--json -", 0, marks=pytest.mark.exhaustive),
        pytest.param("other", "2>&1", 1, marks=pytest.mark.exhaustive),
    ],
)
def test_a_reader_that_goes_away_does_not_change_the_verdict(
    model: str, rest: str, expected: int, tmp_path: Path
) -> None:
    for name, seed in (("one", "1"), ("same", "1"), ("other", "2")):
        assert run(["export", "d2l-ffn", "--seed", seed, "-o", str(tmp_path / f"{name}.onnx"), "--quiet"]) == 0
    verify = f"{sys.executable} -m ffn_export.cli.main verify {model}.onnx --against one.onnx --runtime ort-cpu --fast"
    command = f"{verify} {rest} | true; exit ${{PIPESTATUS[0]}}"  # ``true`` has gone before anything is written
    done = subprocess.run(["bash", "-c", command], cwd=tmp_path, capture_output=True, check=False)
    assert done.returncode == expected
    if "result.json" in rest:
        assert json.loads((tmp_path / "result.json").read_text())["passed"]


@pytest.mark.integration
def test_standard_output_is_utf_8_whatever_the_terminal_takes(tmp_path: Path) -> None:
    program = [sys.executable, "-m", "ffn_export.cli.main"]
    command = [*program, "verify", "d2l.onnx", "--against", "d2l-ffn", "--fast", "--markdown", "-"]
    assert run(["export", "d2l-ffn", "-o", str(tmp_path / "d2l.onnx"), "--quiet"]) == 0
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = subprocess.run([*command, "--quiet"], cwd=tmp_path, env=environment, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "✅" in done.stdout.decode("utf-8")


@pytest.mark.slow
def test_an_export_of_many_nodes_counts_them(tmp_path: Path, capfd: Capture) -> None:
    assert run(["export", "d2l-ffn", "-o", str(tmp_path / "m.onnx")]) == 0
    assert "opset 20, MatMul, Add, Relu, MatMul, Add" in capfd.readouterr().err
    assert run(["export", "llama-ffn", "--opset", "20", "-o", str(tmp_path / "m.onnx")]) == 0
    assert re.search(r"opset 20, \d\d nodes: \d \w+, ", capfd.readouterr().err)


@pytest.mark.slow  # torch.compile starts a C++ compiler
def test_doctor_tries_the_runtimes(capfd: Capture) -> None:
    assert run(["doctor"]) == 0
    out = capfd.readouterr().out
    for words in ("ort-cpu", "ran a model", "torch", "onnxruntime wheels", "cuda"):
        assert words in out
