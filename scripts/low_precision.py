"""Time whole models in low precision, with the error of each form beside its time.

The contenders run in turn, in one process. On one thread its processor time is taken, to which waiting for a busy
processor adds nothing. Times are medians; ratios are to ONNX Runtime's default float32 session on the export, median
and quartiles of the ratios of all turns. The error is that of the first output against the module in
float64, relative L2: on a text for MiniLM, which has its real weights, on drawn inputs for the others, whose weights
are drawn too. MiniLM also embeds each line of ``--texts``, and the embeddings are compared with those of float32.
Smoothing takes its samples from ``scripts/peers/sentences.py``, so give other texts.

It writes ``results-low-precision.json``, and from it the page, its chart and its appendix.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import shlex
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir

from command_line import count, say, seconds
from corpus.peers import silent
from ffn_export.calibration.calibrated import quantize_by_samples
from ffn_export.calibration.node_smoothing import smoothed
from ffn_export.calibration.statistics import drawn_inputs
from ffn_export.core.drawing import draw_all
from ffn_export.core.onnx_file import save
from ffn_export.core.types import Array
from ffn_export.errors import FfnExportError
from ffn_export.exporter.export import export_source
from ffn_export.exporter.source import Source, resolve
from ffn_export.fusion.forms.choice import default_forms, for_few_bits
from ffn_export.fusion.targets import get_target
from ffn_export.fusion_check.check import fuse_checked
from ffn_export.latency.sizes import token_sizes
from ffn_export.parity.judging.metrics import relative_l2
from ffn_export.parity.reference.references import TorchReference
from ffn_export.quantization.matrices import add_initializer
from ffn_export.quantization.safe_integers import LARGEST
from ffn_export.runtimes.ort_native import FLOAT32, provider_problem
from ffn_export.runtimes.session_options import ORT_DEFAULT, SessionSettings
from low_precision_pages import NAME, OPTIMUM, write
from native_benchmark import BASE, Contender, Feeds, bound, compared, environment, openvino, session
from peers.machine import current
from peers.ours import INTEGERS, TARGET
from peers.real_activations import embedding
from peers.sentences import SENTENCES
from peers.whole_models import MINILM, WHOLE_MODELS, directory, lengths, without_padding

_TOKENS = (1, 16, 128, 512)
# Drawn samples for smoothing, of models without texts.
_SAMPLES = {"batch": 8, "seq": 32}
_NEIGHBOURS = 10


def contenders(source: Source, samples: Feeds, threads: int, scratch: Path) -> dict[str, Contender]:
    """Make the sessions of all forms of a model.

    Args:
        source: The model.
        samples: Inputs that activations are smoothed by.
        threads: Intra-op threads.
        scratch: An empty directory.
    """
    exported = export_source(source)
    plain = _bytes(exported)
    fused, whole = (
        fuse_checked(exported, TARGET, check=False, forms=forms)[0]
        for forms in (default_forms(get_target(TARGET)), for_few_bits(default_forms(get_target(TARGET))))
    )
    files = {
        BASE: (plain, ORT_DEFAULT),
        **{name: (made, ORT_DEFAULT) for name, made in _quantize_dynamic(exported, scratch)},
        "ours f32": (_bytes(fused), SessionSettings()),
    }
    for name, given in (("ours int8", None), ("ours int8, by samples", samples)):
        quantized, _ = quantize_by_samples(whole, INTEGERS, given, threads, drawn_inputs(source.inputs))
        files[name] = _bytes(quantized), SessionSettings()
    made = {name: partial(bound, session(each, threads, None, settings)) for name, (each, settings) in files.items()}
    return {**made, **_native(exported, samples, threads), **_openvino(exported, plain, threads)}


def _quantize_dynamic(exported: ir.Model, scratch: Path) -> Iterator[tuple[str, bytes]]:
    """ONNX Runtime's dynamic quantisation of all products of weights, with one scale for each matrix or each column.

    Optimum's ORTQuantizer also quantises products of activations, those of attention.
    """
    from onnxruntime.quantization import QuantType, quantize_dynamic

    save(exported, scratch / "exported.onnx")
    path = scratch / "dynamic.onnx"
    for name, weights_alone in (("quantize_dynamic", True), (OPTIMUM, False)):
        for per_channel in (False, True):
            with silent():
                quantize_dynamic(
                    scratch / "exported.onnx",
                    path,
                    per_channel=per_channel,
                    weight_type=QuantType.QInt8,
                    extra_options={"MatMulConstBOnly": weights_alone},
                )
            yield f"{name} per channel" if per_channel else name, path.read_bytes()


def _native(exported: ir.Model, samples: Feeds, threads: int) -> dict[str, Contender]:
    """The nodes of ``ort-native`` in each precision that the processor has, smoothed for 8-bit integers.

    None without the provider.
    """
    problem = provider_problem(FLOAT32.precision)
    if problem is not None:
        say(f"without native kernels: {problem}")
        return {}
    import onnxruntime_ep_ffn

    native = fuse_checked(exported, "ort-native", check=False)[0]
    plain, integers = _bytes(native), _bytes(smoothed(native, samples, threads))
    there = [each for each in ("f32", "bf16", "int8") if each in onnxruntime_ep_ffn.devices()[0].ep_metadata]
    models = {f"native {each}": (integers if each == "int8" else plain, each) for each in there}
    return {
        name: partial(bound, session(model, threads, each, SessionSettings())) for name, (model, each) in models.items()
    }


def _openvino(exported: ir.Model, plain: bytes, threads: int) -> dict[str, Contender]:
    """OpenVINO in float32, in bfloat16, and with 8-bit weights, whose activations it quantises by default."""
    with contextlib.suppress(ImportError):
        found = {f"OpenVINO {precision}": openvino(plain, threads, precision) for precision in ("f32", "bf16")}
        return {**found, "OpenVINO int8": openvino(_in_8_bit_weights(exported), threads, "bf16")}
    return {}


def _in_8_bit_weights(exported: ir.Model) -> bytes:
    """Store the constant matrices of products in 8 bits, with a scale for each column."""
    model = exported.clone()
    for node in list(model.graph):
        weight = node.inputs[1] if node.op_type == "MatMul" else None
        if weight is None or weight.const_value is None or len(weight.const_value.shape) != 2:
            continue
        matrix = weight.const_value.numpy()
        scales = np.maximum(np.abs(matrix).max(axis=0), np.finfo(np.float32).tiny * LARGEST) / np.float32(LARGEST)
        stored = [
            add_initializer(model.graph, f"{weight.name}_{node.name}_{part}", array)
            for part, array in (("int8", np.rint(matrix / scales).astype(np.int8)), ("scales", scales))
        ]
        wide = ir.node("DequantizeLinear", stored, {"axis": 1}, name=f"{node.name}_weight")
        wide.outputs[0].name = f"{wide.name}_y"
        model.graph.insert_before(node, wide)
        node.replace_input_with(1, wide.outputs[0])
        if not weight.uses():
            del model.graph.initializers[str(weight.name)]
    return _bytes(model)


def _bytes(model: ir.Model) -> bytes:
    data: bytes = ir.to_proto(model).SerializeToString()
    return data


def measured(name: str, options: argparse.Namespace, scratch: Path) -> dict[str, Any]:
    """Measure a model; returns its rows, and for MiniLM what each form makes of the embeddings."""
    where = directory(name, scratch)
    source = resolve(f"hf:{where}")
    texts = options.texts.read_text().splitlines() if name == MINILM else []
    samples = _read(where, source, SENTENCES) if texts else _drawn(source, 1, _SAMPLES)
    made = contenders(source, samples, options.threads, scratch)
    clock = time.process_time if options.threads == 1 else time.perf_counter
    rows = []
    for tokens, size in lengths(name, options.tokens).items():
        say(f"{name}, {tokens} tokens")
        sizes = token_sizes(source.inputs, size)
        feeds = _text_of(where, source, texts, tokens) if texts else _drawn(source, 0, sizes)
        wanted = next(iter(TorchReference(source, options.threads).evaluate(feeds).values()))[0]
        rows += [
            {"module": name, "tokens": tokens, **row} for row in compared(made, feeds, wanted, options.seconds, clock)
        ]
    return {"rows": rows, "embeddings": _embeddings(made, [_read(where, source, [text]) for text in texts])}


def _drawn(source: Source, seed: int, sizes: Mapping[str, int]) -> dict[str, Array]:
    """Draw inputs without padding."""
    return without_padding(source.inputs, draw_all(source.inputs, {**token_sizes(source.inputs, 1), **sizes}, seed))


def _read(where: Path, source: Source, texts: Sequence[str]) -> dict[str, Array]:
    """Read texts with the model's tokenizer, padded to one length."""
    import transformers

    tokenizer: Any = transformers.AutoTokenizer.from_pretrained(where, local_files_only=True)
    read = tokenizer(list(texts), padding=True, verbose=False)
    return {spec.name: np.asarray(read[spec.name], spec.dtype) for spec in source.inputs}


def _text_of(where: Path, source: Source, texts: Sequence[str], tokens: int) -> dict[str, Array]:
    """Return the beginning of the texts as one sequence."""
    read = _read(where, source, [" ".join(texts)])
    return {name: np.ascontiguousarray(array[:, :tokens]) for name, array in read.items()}


def _embeddings(made: Mapping[str, Contender], texts: Sequence[Feeds]) -> dict[str, Any]:
    """Compare the embedding of each text, which runs alone, with that of float32."""
    if not texts:
        return {}
    found: dict[str, Any] = {}
    exact = nearest = None
    for name, contender in made.items():
        vectors = np.concatenate([embedding(contender(each)[1], each["attention_mask"]) for each in texts])
        close = _nearest(vectors)
        if exact is None or nearest is None:  # the first is the base
            exact, nearest = vectors, close
        cosines = (vectors * exact).sum(axis=1)
        found[name] = {
            "cosine": float(cosines.mean()),
            "least": float(cosines.min()),
            "error": relative_l2(vectors, exact),
            "kept": float(np.mean([len(a & b) / len(a) for a, b in zip(nearest, close, strict=True)])),
        }
    return found


def _nearest(vectors: Array) -> list[set[int]]:
    """Return the texts that are nearest to each text."""
    similarity = vectors @ vectors.T
    np.fill_diagonal(similarity, -1.0)
    return [set(map(int, row)) for row in np.argsort(-similarity, axis=1)[:, :_NEIGHBOURS]]


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and write, or write the pages again."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("models", nargs="*", default=list(WHOLE_MODELS), help=f"[{', '.join(WHOLE_MODELS)}]")
    add("--tokens", type=count, nargs="+", default=list(_TOKENS), metavar="N")
    add("--threads", type=count, default=1, metavar="N")
    add("--seconds", type=seconds, default=10.0, metavar="S", help="for each model and number of tokens [10]")
    add("--texts", type=Path, metavar="FILE", help="texts that MiniLM embeds, one a line")
    add("--folder", type=Path, default=Path(__file__).parents[1] / "docs", help="where the files go [docs]")
    add("--only-pages", action="store_true", help="write the pages again from the stored results")
    options = parser.parse_args(arguments)
    if not options.folder.is_dir():
        parser.error(f"--folder {options.folder} is no folder; make it first")  # what is measured would be lost
    stored = options.folder / f"{NAME}.json"
    if not options.only_pages:
        if MINILM in options.models and (options.texts is None or not options.texts.is_file()):
            parser.error(f"{MINILM} embeds texts: give --texts FILE")
        given = sys.argv[1:] if arguments is None else arguments
        try:
            results = _all(options, shlex.join(["python", "scripts/low_precision.py", *given]))
        except FfnExportError as error:
            print(f"low_precision: {error}", file=sys.stderr)
            return error.exit_status
        stored.write_text(json.dumps(results, indent=1) + "\n")
    write(json.loads(stored.read_text()), options.folder)
    return 0


def _all(options: argparse.Namespace, command: str) -> dict[str, Any]:
    here = {**environment(options.threads), "versions": dict(current(options.threads).versions)}
    results: dict[str, Any] = {"command": command, "environment": here, "rows": []}
    results["texts"] = _facts(options.texts) if MINILM in options.models else {}
    results["embeddings"] = {}
    for name in options.models:
        with tempfile.TemporaryDirectory(prefix="ffn-low-precision-") as scratch:
            found = measured(name, options, Path(scratch))
        results["rows"] += found["rows"]
        results["embeddings"] |= found["embeddings"]
    return results


def _facts(path: Path) -> dict[str, Any]:
    text = path.read_bytes()
    return {"name": path.name, "lines": len(text.decode().splitlines()), "sha256": hashlib.sha256(text).hexdigest()}


if __name__ == "__main__":
    sys.exit(main())
