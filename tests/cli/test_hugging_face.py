"""``hf:DIR`` on the command line, as Optimum's users would try it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from ffn_export.cli.main import run

pytest.importorskip("transformers", reason="the extra 'hf' is not installed")

from tests.exporter.hugging_face import models

Capture = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return models.save("BertForMaskedLM", tmp_path_factory.mktemp("hub") / "tiny-bert")


@pytest.mark.integration
def test_export_verify_and_bench_need_no_input(directory: Path, tmp_path: Path, capfd: Capture) -> None:
    model, report, times = (str(tmp_path / name) for name in ("m.onnx", "parity.json", "times.json"))
    spec = f"hf:{directory}"
    assert run(["export", spec, "-o", model]) == 0
    assert run(["verify", model, "--against", spec, "--runtime", "ort-cpu", "--fast", "--json", report]) == 0
    assert json.loads(Path(report).read_text())["against"] == spec
    assert run(["bench", model, "--against", spec, "--tokens", "4", "--runtime", "ort-cpu", "--json", times]) == 0
    assert json.loads(Path(times).read_text())["measurements"][0]["sizes"] == {"batch": 1, "seq": 4}
    capfd.readouterr()
    # The graph of one task is not that of another, and the interface says so.
    task = ["--task", "feature-extraction"]
    assert run(["verify", model, "--against", spec, "--runtime", "ort-cpu", "--fast", *task]) == 1
    assert "the runtime has no such output" in capfd.readouterr().err


@pytest.mark.integration
def test_build_writes_a_bundle_of_the_directorys_name(directory: Path, tmp_path: Path, capfd: Capture) -> None:
    assert run(["build", f"hf:{directory}", "-o", str(tmp_path), "--runtime", "ort-cpu", "--quiet"]) == 0
    assert capfd.readouterr().err == ""  # not a word of transformers' either
    assert (tmp_path / "tiny-bert" / "config.json").read_bytes() == (directory / "config.json").read_bytes()
    assert run(["verify", str(tmp_path / "tiny-bert"), "--runtime", "ort-cpu", "--fast"]) == 0


@pytest.mark.integration
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--task", "fill-mask-with-past"], "asks for a cache, which only text-generation-with-past has"),
        (["--task", "text-classification"], "hold no head for text-classification"),
        (["--input", "pixels:float32[batch,3]"], "'pixels' is no input of hf:"),
    ],
)
def test_what_cannot_be_is_one_line_and_status_2(
    directory: Path, tmp_path: Path, capfd: Capture, arguments: list[str], words: str
) -> None:
    assert run(["export", f"hf:{directory}", "-o", str(tmp_path / "m.onnx"), *arguments, "--quiet"]) == 2
    lines = capfd.readouterr().err.splitlines()
    assert len(lines) == 1
    assert lines[0].startswith("ffn-export: ")
    assert words in lines[0]


@pytest.mark.integration
def test_without_transformers_it_says_what_to_install(
    directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: Capture
) -> None:
    monkeypatch.setitem(sys.modules, "transformers", None)  # as if it were not installed
    assert run(["export", f"hf:{directory}", "-o", str(tmp_path / "m.onnx"), "--quiet"]) == 2
    assert capfd.readouterr().err == (
        "ffn-export: hf:DIR needs the transformers library: pip install 'ffn-export[hf]'\n"
    )


@pytest.mark.integration
def test_other_specs_do_not_load_transformers() -> None:
    code = "import sys, ffn_export.verbs.build; sys.exit('transformers' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
