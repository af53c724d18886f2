"""``manifest.json``: what a bundle is, read and written under its JSON Schema."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from ffn_export.core import plain_file
from ffn_export.errors import IntegrityError, UsageError
from ffn_export.runtimes.session_options import SessionSettings

# 2: `source.dtype`, `source.keep_io` and `weights_bytes`; `parity.runtimes` says what was warned.
SCHEMA_VERSION = 2
MANIFEST = "manifest.json"
MODEL = "model.onnx"
_MOST_BYTES = 2**24


@dataclass(frozen=True)
class Manifest:
    """A bundle's manifest.

    Attributes:
        name: The bundle's name.
        source: Spec, kind, seed of the weights, reference and input specs: how to make the module again.
        inputs: Name, dtype and symbolic shape of each graph input.
        outputs: The same of each output.
        opset_imports: Domain -> version.
        target: What the graph was fused for.
        provider: Execution provider of ONNX Runtime that it was verified on.
        operators_outside_standard: ``domain::Operator`` of each that the standard does not have.
        weights_bytes: Size of all initialisers.
        fusion: Sites by kind and status, rules, node counts.
        parity: Verdict, and a summary for each runtime.
        latency: Baseline and medians.
        session_options: Under which all of that holds.
        tolerances: Of the verdict.
        environment: Where it was verified.
        files: Path inside the bundle -> sha256.
        quantization: Bits, block, accuracy level and number of matrices, where weights are stored in few bits.
        tuning: Forms, sizes and reason, where the form was chosen by measuring.
        provider_options: Options of the provider that it was verified and timed with.
    """

    name: str
    source: Mapping[str, Any]
    inputs: tuple[Mapping[str, Any], ...]
    outputs: tuple[Mapping[str, Any], ...]
    opset_imports: Mapping[str, int]
    target: str
    provider: str
    operators_outside_standard: tuple[str, ...]
    weights_bytes: int
    fusion: Mapping[str, Any]
    parity: Mapping[str, Any]
    latency: Mapping[str, Any]
    session_options: SessionSettings
    tolerances: Mapping[str, Any]
    environment: Mapping[str, Any] | None = None
    files: Mapping[str, str] = field(default_factory=dict)
    quantization: Mapping[str, Any] | None = None
    tuning: Mapping[str, Any] | None = None
    provider_options: Mapping[str, str] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        data = {"schema_version": SCHEMA_VERSION, **asdict(self)}
        return {**data, "session_options": self.session_options.to_dict()}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Manifest:
        """Read what :meth:`to_dict` wrote."""
        fields = {key: value for key, value in data.items() if key != "schema_version"}
        return cls(
            **{
                **fields,
                "inputs": tuple(fields["inputs"]),
                "outputs": tuple(fields["outputs"]),
                "operators_outside_standard": tuple(fields["operators_outside_standard"]),
                "session_options": SessionSettings.from_dict(fields["session_options"]),
            }
        )

    def write(self, directory: Path) -> None:
        """Validate and write ``manifest.json``."""
        data = json.loads(json.dumps(self.to_dict()))
        _validator().validate(data)
        (directory / MANIFEST).write_text(json.dumps(data, indent=2, allow_nan=False) + "\n")


def read_manifest(directory: Path) -> Manifest:
    """Read and validate a bundle's manifest.

    Raises:
        IntegrityError: If it is missing, is no JSON, is of another version, or does not follow the schema.
    """
    path = directory / MANIFEST
    try:
        data = plain_file.read_json(path, _MOST_BYTES)
    except UsageError as error:
        raise IntegrityError(f"{directory} is no bundle: {error}") from error
    _check_version(path, data)
    problem = next(iter(sorted(_validator().iter_errors(data), key=lambda e: list(map(str, e.path)))), None)
    if problem is not None:
        where = "/".join(map(str, problem.path)) or "the manifest"
        raise IntegrityError(f"{path} does not follow the manifest schema: {where}: {problem.message[:200]}")
    try:
        return Manifest.from_dict(data)
    except (UsageError, TypeError) as error:  # the latter of a field that no version has
        raise IntegrityError(f"{path} is no manifest of ffn-export: {error}") from error


def files_of(directory: Path) -> frozenset[str] | None:
    """Return the files of a bundle of any version, its manifest among them; None where a directory is none.

    ``manifest.json`` is a name that web applications use too.
    """
    try:
        data = plain_file.read_json(directory / MANIFEST, _MOST_BYTES)
    except UsageError:
        return None
    files = data.get("files") if isinstance(data, Mapping) and "schema_version" in data else None
    return frozenset((MANIFEST, *files)) if isinstance(files, Mapping) else None


def _check_version(path: Path, data: Any) -> None:
    """Say of a bundle of another version what to do, which a field that the schema misses does not."""
    version = data.get("schema_version") if isinstance(data, Mapping) else None
    if isinstance(version, int) and version != SCHEMA_VERSION:
        advice = "build it again" if version < SCHEMA_VERSION else "read it with a newer ffn-export"
        raise IntegrityError(f"{path} has manifest version {version}, this release reads {SCHEMA_VERSION}: {advice}")


@cache
def _validator() -> Any:
    import jsonschema

    text = resources.files("ffn_export.bundle").joinpath("manifest.schema.json").read_text()
    return jsonschema.Draft202012Validator(json.loads(text))
