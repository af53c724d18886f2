"""Whole models on the GPU: what is gained over ONNX Runtime's default session, in each precision, at which error.

The weights are drawn. The error is that of the first output against the module in float64, relative L2, so that of
float16 includes the rounding of the weights.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

import ffn_export as fx
from command_line import say
from ffn_export.core import onnx_file
from ffn_export.core.drawing import draw_all
from ffn_export.core.one_line import first_line
from ffn_export.core.types import Array
from ffn_export.errors import FfnExportError
from ffn_export.exporter.capture import DEFAULT_OPSET
from ffn_export.exporter.export import export_source
from ffn_export.exporter.source import Source
from ffn_export.parity.judging.metrics import relative_l2
from ffn_export.parity.reference.references import TorchReference
from ffn_export.quantization.options import QuantizationOptions
from ffn_export.quantization.quantize import quantize
from ffn_export.runtimes.base import Artifact, Runner
from ffn_export.runtimes.registry import get_runtime
from ffn_export.runtimes.session_options import ORT_DEFAULT, SessionSettings
from ffn_export.verbs.source_spec import SourceSpec
from gpu.processes import in_a_process, read, write
from gpu.proof import RUNTIME, TORCH
from gpu.timing import sizes_of, timed
from peers.whole_models import BERT_BASE, VIT_BASE, directory, without_padding

MODELS = (BERT_BASE, VIT_BASE, "small Llama")
DEFAULT = f"{RUNTIME} default"
_IN_BITS = {f"{RUNTIME}, {bits}-bit weights": bits for bits in (8, 4)}
FORMS = (DEFAULT, RUNTIME, *_IN_BITS)
SIZES = ((1, 1), (1, 128), (8, 128), (32, 512))
_JUDGED = (2, 64)
_DTYPES = ("float32", "float16")


@dataclass(frozen=True)
class Prepared:
    """The files of a model in one precision.

    Attributes:
        name: The model.
        dtype: Its precision.
        folder: Where its files are.
        threads: For PyTorch's runs on the CPU.
    """

    name: str
    dtype: str
    folder: Path
    threads: int

    @property
    def saved(self) -> Path:
        """Where transformers saved it."""
        return self.folder / "saved"

    @property
    def wanted(self) -> Path:
        """The first output in float64."""
        return self.folder / "wanted.npy"

    def source(self) -> Source:
        """Load the module."""
        return SourceSpec(f"hf:{self.saved}", dtype=self.dtype).source()

    def graph(self, form: str) -> Path:
        """Where the graph of a form is."""
        return self.folder / f"{FORMS.index(form)}.onnx"

    def feeds(self, source: Source) -> dict[str, Array]:
        """Draw the inputs that outputs are compared on."""
        return without_padding(source.inputs, draw_all(source.inputs, sizes_of(source.inputs, *_JUDGED), seed=0))


def prepare_models(names: Sequence[str], scratch: Path, threads: int, deadline: float) -> list[Prepared]:
    """Write the files of all models at once, which needs no GPU; returns those that are complete."""
    wanted = []
    for name, dtype in itertools.product(names, _DTYPES):
        folder = scratch / f"{name.replace(' ', '-')}-{dtype}"
        folder.mkdir()
        wanted.append(Prepared(name, dtype, folder, threads))
    with ThreadPoolExecutor(max(1, len(wanted))) as pool:
        endings = list(pool.map(lambda each: in_a_process(_prepare, (each,), deadline), wanted))
    for each, ending in zip(wanted, endings, strict=True):
        if ending is not None:
            say(f"{each.name} in {each.dtype} is left out: {ending}")
    return [each for each, ending in zip(wanted, endings, strict=True) if ending is None]


def _prepare(model: Prepared) -> None:
    torch.set_num_threads(model.threads)
    directory(model.name, model.folder)
    source = model.source()
    exported = export_source(source, DEFAULT_OPSET)
    fused, _ = fx.fuse(exported, RUNTIME, check=False)
    for form, graph in (
        (DEFAULT, exported),
        (RUNTIME, fused),
        *((form, quantize(fused, _options(bits))[0]) for form, bits in _IN_BITS.items()),
    ):
        onnx_file.save(graph, model.graph(form))
    exact = SourceSpec(f"hf:{model.saved}").source()
    np.save(model.wanted, next(iter(TorchReference(exact, model.threads).evaluate(model.feeds(exact)).values()))[0])


def time_models(models: Sequence[Prepared], scratch: Path, deadline: float) -> list[dict[str, Any]]:
    """Time models, alone on the GPU; returns one record for each model, precision and sizes."""
    records = scratch / "models.jsonl"
    for model in models:
        ended = in_a_process(_time, (model, records), deadline)
        if ended is not None:
            say(f"{model.name} in {model.dtype} is not complete: {ended}")
    return read(records)


def _time(model: Prepared, records: Path) -> None:
    say(f"timing {model.name} in {model.dtype}")
    source = model.source()
    runners, refused = _loaded(model, source)
    feeds, wanted = model.feeds(source), np.load(model.wanted)
    firsts = {form: next(iter(runner.run(feeds).values())) for form, runner in runners.items()}
    about = {
        "model": model.name,
        "dtype": model.dtype,
        "errors": {form: relative_l2(first.astype(np.float64), wanted) for form, first in firsts.items()},
        "refused": refused,
    }
    for record in timed(source, {form: [runner] for form, runner in runners.items()}, SIZES):
        write(records, {**about, **record})


def _loaded(model: Prepared, source: Source) -> tuple[dict[str, Runner], dict[str, str]]:
    """Return form -> its session, and form -> why it has none."""
    artifacts = {TORCH: Artifact(source=source)}
    for form in FORMS:
        settings = ORT_DEFAULT if form == DEFAULT else SessionSettings()
        artifacts[form] = Artifact(model.graph(form), source, settings)
    runners: dict[str, Runner] = {}
    refused: dict[str, str] = {}
    for form, artifact in artifacts.items():
        try:
            runners[form] = get_runtime("torch-cuda" if form == TORCH else RUNTIME).load(artifact, model.threads)
        except FfnExportError as error:
            refused[form] = first_line(error)
            say(f"{form} is refused: {first_line(error)}")
    return runners, refused


def _options(bits: int) -> QuantizationOptions:
    """CUDA's kernel computes in the dtype of the model, as accuracy level 0 says."""
    return QuantizationOptions(bits=bits, accuracy_level=0, all_products=True)
