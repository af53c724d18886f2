"""What ships beside a model: copied as it is, hashed, and named in the manifest."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

import ffn_export as fx
from ffn_export.bundle import companions
from ffn_export.bundle.manifest import read_manifest
from ffn_export.errors import IntegrityError, UsageError
from tests.exporter.helpers import refusal

pytest.importorskip("transformers", reason="the extra 'hf' is not installed")

from tests.exporter.hugging_face import models


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("hub")
    (root / "blob").write_text('{"tokenizer_class": "BertTokenizer"}')
    directory = models.save("BertForMaskedLM", root / "tiny-bert")
    (directory / "tokenizer_config.json").symlink_to(root / "blob")  # as in the cache of huggingface_hub
    (directory / "vocab.txt").write_text("[PAD]\n[UNK]\n")
    (directory / "training_args.bin").write_bytes(b"\x00")
    return directory


@pytest.fixture(scope="module")
def bundle(directory: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fx.build(f"hf:{directory}", directory=tmp_path_factory.mktemp("exported"), fast=True).directory


@pytest.mark.integration
def test_a_bundle_holds_what_a_caller_needs(bundle: Path, directory: Path) -> None:
    manifest = read_manifest(bundle)
    shipped = ["config.json", "tokenizer_config.json", "vocab.txt"]
    assert bundle.name == "tiny-bert"
    assert manifest.source["files"] == shipped
    assert (manifest.source["kind"], manifest.source["task"]) == ("hugging_face", "fill-mask")
    for name in shipped:
        assert not (bundle / name).is_symlink()
        content = (directory / name).read_bytes()
        assert (bundle / name).read_bytes() == content
        assert manifest.files[name] == hashlib.sha256(content).hexdigest()
    assert not (bundle / "training_args.bin").exists()


@pytest.mark.integration
def test_a_bundle_knows_its_source_and_its_task(bundle: Path) -> None:
    assert fx.verify(bundle, runtimes=["ort-cpu"], trust=True, fast=True).passed
    assert fx.bench(bundle, sizes=[{"batch": 1, "seq": 4}], runtimes=["ort-cpu"], trust=True).baseline == "torch"


@pytest.mark.integration
def test_a_changed_tokenizer_is_found(bundle: Path, tmp_path: Path) -> None:
    changed = tmp_path / "changed"
    changed.mkdir()
    for path in bundle.rglob("*"):
        if path.is_file():
            (changed / path.relative_to(bundle)).parent.mkdir(exist_ok=True)
            (changed / path.relative_to(bundle)).write_bytes(path.read_bytes())
    (changed / "vocab.txt").write_text("[UNK]\n[PAD]\n")
    assert "vocab.txt is not the file that was verified" in refusal(IntegrityError, fx.verify, changed)


@pytest.mark.integration
def test_the_same_directory_gives_the_same_bytes(
    exported_anew: None, bundle: Path, directory: Path, tmp_path: Path
) -> None:
    again = fx.build(f"hf:{directory}", directory=tmp_path, fast=True).directory
    first, second = (read_manifest(path) for path in (bundle, again))
    assert first.files == second.files
    assert json.loads((bundle / "manifest.json").read_text()) == json.loads((again / "manifest.json").read_text())


def test_what_cannot_be_read_is_named(tmp_path: Path) -> None:
    files = {"vocab.txt": tmp_path / "gone" / "vocab.txt"}
    assert "cannot read" in refusal(UsageError, companions.copy, files, tmp_path)
