"""``manifest.json`` of a bundle, read and written under its JSON Schema."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cache
from pathlib import Path
from typing import Any, Self

from ffn_export.core import json_schema, plain_file
from ffn_export.core.processor import Kind
from ffn_export.core.tensor_spec import TensorSpec, parse_inputs
from ffn_export.errors import IntegrityError, UsageError
from ffn_export.runtimes.session_options import SessionSettings

# Version 2 added `source.dtype`, `source.keep_io`, `weights_bytes` and the warned cases in `parity.runtimes`.
# Version 3 names the statuses of sites anew and has the times of ONNX Runtime's default session.
# Version 4 added `processor` and `variants`.
SCHEMA_VERSION = 4
MANIFEST = "manifest.json"
MODEL = "model.onnx"
_MOST_BYTES = 2**24
_SCHEMA = Path(__file__).with_name("manifest.schema.json")


@dataclass(frozen=True, kw_only=True)
class Variant:
    """The entries of one graph of a bundle, which was built on one kind of processor.

    Attributes:
        opset_imports: Domain -> version.
        operators_outside_standard: Vendor operators, as ``domain::Operator``.
        weights_bytes: Size of all initializers.
        fusion: Sites by kind and status, rules, node counts.
        parity: Verdict, and a summary for each runtime.
        latency: Baseline and medians.
        session_options: Session options of the verification and the timing.
        processor: Kind of processor that it was built on.
        tolerances: Tolerances of the verdict.
        environment: Environment of the verification.
        quantization: Number of matrices, and their bits, block and accuracy level or ``int8``; None without
            quantisation.
        tuning: Forms, tokens and reason; None without tuning.
    """

    opset_imports: Mapping[str, int]
    operators_outside_standard: tuple[str, ...]
    weights_bytes: int
    fusion: Mapping[str, Any]
    parity: Mapping[str, Any]
    latency: Mapping[str, Any]
    session_options: SessionSettings
    processor: Kind
    tolerances: Mapping[str, Any]
    environment: Mapping[str, Any] | None = None
    quantization: Mapping[str, Any] | None = None
    tuning: Mapping[str, Any] | None = None

    def entries(self) -> dict[str, Any]:
        """Return these entries, without those of the whole bundle."""
        return {each.name: getattr(self, each.name) for each in fields(Variant)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Restore from plain data."""
        return cls(
            **{
                **data,
                "operators_outside_standard": tuple(data["operators_outside_standard"]),
                "session_options": SessionSettings.from_dict(data["session_options"]),
                "processor": Kind(**data["processor"]),
            }
        )


@dataclass(frozen=True)
class Graph:
    """One graph of a bundle.

    Attributes:
        file: Name of its file.
        manifest: Manifest of the bundle, with the entries of this graph.
        why: Why this one was taken.
    """

    file: str
    manifest: Manifest
    why: str


@dataclass(frozen=True, kw_only=True)
class Manifest(Variant):
    """A bundle's manifest: what all its graphs share, and the entries of ``model.onnx``, the default.

    Attributes:
        name: Name of the bundle.
        source: SPEC, kind, seed of the weights, reference and input specifications, which recreate the module.
        inputs: Name, dtype and symbolic shape of each graph input.
        outputs: Name, dtype and symbolic shape of each graph output.
        target: Fusion target of the graphs.
        provider: Execution provider that the bundle was verified on.
        files: Path inside the bundle -> sha256.
        provider_options: Provider options of the verification and the timing.
        producer: Name and version of the program that wrote it.
        variants: File -> its entries, for each further graph.
    """

    name: str
    source: Mapping[str, Any]
    inputs: tuple[Mapping[str, Any], ...]
    outputs: tuple[Mapping[str, Any], ...]
    target: str
    provider: str
    files: Mapping[str, str] = field(default_factory=dict)
    provider_options: Mapping[str, str] = field(default_factory=dict)
    producer: Mapping[str, str] = field(default_factory=dict)
    variants: Mapping[str, Variant] = field(default_factory=dict)

    @property
    def graphs(self) -> dict[str, Manifest]:
        """File -> manifest with its entries, for each graph; the first is the default."""
        further = {file: replace(self, **variant.entries()) for file, variant in self.variants.items()}
        return {MODEL: self, **further}

    @property
    def declared(self) -> tuple[TensorSpec, ...]:
        """The inputs of the graphs, with the bounds that they were exported with.

        Raises:
            IntegrityError: If the inputs of the source do not parse.
        """
        dtypes = {tensor["name"]: tensor["dtype"] for tensor in self.inputs}
        try:  # the source has them as they were before a conversion to another precision
            specs = parse_inputs(self.source["inputs"])
            return tuple(replace(spec, dtype=dtypes[spec.name]) for spec in specs if spec.name in dtypes)
        except UsageError as error:
            raise IntegrityError(f"the manifest of {self.name} does not declare its inputs: {error}") from error

    def graph_for(self, kind: Kind) -> Graph:
        """Return the graph for a kind of processor: the one that was built on it, or the default."""
        if not self.variants:
            return Graph(MODEL, self, "the bundle has one graph")
        for file, manifest in self.graphs.items():
            if manifest.processor == kind:
                return Graph(file, manifest, f"it was built for this kind of processor: {kind}")
        return Graph(MODEL, self, f"the default, as the bundle has no graph for this kind of processor: {kind}")

    def as_variant(self) -> Variant:
        """Return the entries that differ between the graphs of a bundle."""
        return Variant(**self.entries())

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        return {"schema_version": SCHEMA_VERSION, "name": self.name, "source": self.source, **asdict(self)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Restore from the data of :meth:`to_dict`."""
        given = {key: value for key, value in data.items() if key != "schema_version"}
        return super().from_dict(
            {
                **given,
                "inputs": tuple(given["inputs"]),
                "outputs": tuple(given["outputs"]),
                "variants": {file: Variant.from_dict(each) for file, each in given["variants"].items()},
            }
        )

    def write(self, directory: Path) -> None:
        """Validate and write ``manifest.json``."""
        data = json.loads(json.dumps(self.to_dict()))
        problem = json_schema.first_problem(data, _schema())
        assert problem is None, problem
        (directory / MANIFEST).write_text(json.dumps(data, indent=2, allow_nan=False) + "\n")


def reports_of(directory: Path, graph: str) -> Path:
    """Return where a bundle has the reports of one of its graphs: ``model-KIND.onnx`` has those in ``KIND``."""
    return directory if graph == MODEL else directory / graph.removeprefix("model-").removesuffix(".onnx")


def read_manifest(directory: Path) -> Manifest:
    """Read and validate a bundle's manifest.

    Raises:
        IntegrityError: If the manifest is missing, is not JSON, has another version, or does not follow the schema.
    """
    path = directory / MANIFEST
    try:
        data = plain_file.read_json(path, _MOST_BYTES)
    except UsageError as error:
        raise IntegrityError(f"{directory} is no bundle: {error}") from error
    _check_version(path, data)
    problem = json_schema.first_problem(data, _schema())
    if problem is not None:
        raise IntegrityError(f"{path} does not follow the manifest schema: {problem}")
    try:
        return Manifest.from_dict(data)
    except (UsageError, TypeError) as error:  # TypeError: an unknown field
        raise IntegrityError(f"{path} is no manifest of ffn-export: {error}") from error


def files_of(directory: Path) -> frozenset[str] | None:
    """Return the files of a bundle of any version, including its manifest; None if the directory is no bundle.

    Web applications use the name ``manifest.json`` too, so the content is checked.
    """
    try:
        data = plain_file.read_json(directory / MANIFEST, _MOST_BYTES)
    except UsageError:
        return None
    files = data.get("files") if isinstance(data, Mapping) and "schema_version" in data else None
    return frozenset((MANIFEST, *files)) if isinstance(files, Mapping) else None


def refuse_file_of_bundle(path: Path) -> None:
    """Refuse an output that would take the place of a file of a bundle.

    Raises:
        UsageError: If the manifest beside the file names it, or it is the manifest itself.
    """
    if not path.is_file():
        return
    try:
        files = read_manifest(path.parent).files
    except IntegrityError:
        return
    if path.name in (*files, MANIFEST):
        raise UsageError(f"{path} belongs to a bundle, whose manifest says what it holds: write to another directory")


def _check_version(path: Path, data: Any) -> None:
    """Reject another manifest version with advice, which a schema violation would not give."""
    version = data.get("schema_version") if isinstance(data, Mapping) else None
    if isinstance(version, int) and version != SCHEMA_VERSION:
        advice = "build it again" if version < SCHEMA_VERSION else "read it with a newer ffn-export"
        raise IntegrityError(f"{path} has manifest version {version}, this release reads {SCHEMA_VERSION}: {advice}")


@cache
def _schema() -> json_schema.Schema:
    schema: json_schema.Schema = json.loads(_SCHEMA.read_text(encoding="utf-8"))
    return schema
