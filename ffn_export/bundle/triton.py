"""A model repository for Triton Inference Server from a bundle: ``NAME/config.pbtxt`` and ``NAME/1/model.onnx``.

The configuration is text of Triton's ``model_config.proto``. Requests are batched along the first axis if all inputs
and outputs share it; Triton then leaves it out of ``dims``.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ffn_export.bundle.manifest import MODEL, Manifest, read_manifest
from ffn_export.bundle.publish import staging
from ffn_export.core import external_files, plain_file, wire_format
from ffn_export.core.tensor_spec import merge_dims, parse_inputs
from ffn_export.errors import UsageError

CONFIG = "config.pbtxt"
VERSION = "1"

_MOST = 64  # rows of a batch, unless the axis has a bound
_DELAY = 2000  # microseconds that a request waits for others
_TYPES = {
    "float16": "FP16",
    "bfloat16": "BF16",
    "float32": "FP32",
    "float64": "FP64",
    "bool": "BOOL",
    "uint8": "UINT8",
    "int8": "INT8",
    "int16": "INT16",
    "int32": "INT32",
    "int64": "INT64",
}
# Triton's backend for ONNX Runtime: 0 is the highest level, -1 basic, 1 extended, 2 none.
_LEVELS = {"all": 0, "basic": -1, "extended": 1, "disable_all": 2}
_KINDS = {"CPUExecutionProvider": "KIND_CPU", "CUDAExecutionProvider": "KIND_GPU"}


def write_repository(bundle: Path, repository: Path) -> Path:
    """Write a bundle into a model repository, in place of an earlier one of its name; return its directory.

    Raises:
        UsageError: If Triton has no provider of its kind, the repository cannot be written to, or something else has
            the name there.
        IntegrityError: If the directory is no bundle.
    """
    manifest = read_manifest(bundle)
    text = config(manifest)
    destination = repository / bundle.name
    try:
        repository.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise plain_file.not_writable(repository, error) from error
    with staging(destination, _check_replaceable) as stage:
        version = stage.directory / VERSION
        for name in (MODEL, *external_files.locations(wire_format.external_tensors(bundle / MODEL))):
            (version / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(bundle / name, version / name)
        (stage.directory / CONFIG).write_text(text)
        stage.publish()
    return destination


def config(manifest: Manifest) -> str:
    """Return ``config.pbtxt`` for a bundle.

    Raises:
        UsageError: If Triton has no provider of its kind.
    """
    if manifest.provider not in _KINDS:
        raise UsageError(f"{manifest.name} was verified on {manifest.provider}, which Triton does not have")
    kind, most = _KINDS[manifest.provider], _most_rows(manifest)
    lines = ['backend: "onnxruntime"', f"max_batch_size: {most}"]
    for field, tensors in (("input", manifest.inputs), ("output", manifest.outputs)):
        lines += [_tensor(field, tensor, is_batched=most > 0) for tensor in tensors]
    if most > 0:
        lines.append(f"dynamic_batching {{ max_queue_delay_microseconds: {_DELAY} }}")
    lines += [
        f"instance_group [ {{ kind: {kind}, count: 1 }} ]",
        f"version_policy {{ specific {{ versions: [ {VERSION} ] }} }}",
        f"optimization {{ {_optimization(manifest)} }}",
    ]
    return "\n".join(lines) + "\n"


def _most_rows(manifest: Manifest) -> int:
    """Return the largest batch; 0 if the tensors have no first axis in common."""
    shapes = [tensor["shape"] for tensor in (*manifest.inputs, *manifest.outputs)]
    first = {shape[0] if shape else None for shape in shapes}
    axis = first.pop()
    if first or not isinstance(axis, str):
        return 0
    declared = merge_dims(parse_inputs(manifest.source["inputs"])).get(axis)
    return _MOST if declared is None or declared.maximum is None else declared.maximum


def _tensor(field: str, tensor: Mapping[str, Any], *, is_batched: bool) -> str:
    name, dims = json.dumps(tensor["name"]), _dims(tensor["shape"][is_batched:])
    shape = f"dims: [ {dims} ]" if dims else "dims: [ 1 ], reshape { shape: [ ] }"  # it takes no tensor without axes
    return f"{field} [ {{ name: {name}, data_type: TYPE_{_TYPES[tensor['dtype']]}, {shape} }} ]"


def _dims(shape: list[int | str]) -> str:
    return ", ".join(str(size if isinstance(size, int) else -1) for size in shape)


def _optimization(manifest: Manifest) -> str:
    """Return the level, and the options of CUDA, without which it computes products in TF32."""
    level = f"graph {{ level: {_LEVELS[manifest.session_options.graph_optimization_level]} }}"
    if not manifest.provider_options:
        return level
    given = " ".join(
        f"parameters {{ key: {json.dumps(key)}, value: {json.dumps(value)} }}"
        for key, value in manifest.provider_options.items()
    )
    return f'{level}, execution_accelerators {{ gpu_execution_accelerator [ {{ name: "cuda" {given} }} ] }}'


def _check_replaceable(directory: Path) -> None:
    """Refuse to replace a directory that is not of this form."""
    present = {path.name for path in directory.iterdir()} if directory.is_dir() else set()
    if directory.is_symlink() or present - {CONFIG, VERSION} or (present and CONFIG not in present):
        raise UsageError(f"{directory} is in the way and not of `--triton`: move it, or choose another --name")
