"""Load a bundle for inference, with the session options and execution provider that it was verified with."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ffn_export.bundle import integrity
from ffn_export.bundle.manifest import Graph, Manifest, read_manifest
from ffn_export.core import processor
from ffn_export.core.drawing import numpy_dtype
from ffn_export.core.one_line import first_line
from ffn_export.core.tensor_spec import merge_dims
from ffn_export.core.types import Array
from ffn_export.errors import FfnExportError, RuntimeUnavailableError, UsageError, needing
from ffn_export.exporter.samples import as_array
from ffn_export.runtimes import ort_native
from ffn_export.runtimes.base import Artifact
from ffn_export.runtimes.ort_accelerator import OrtGpuRunner
from ffn_export.runtimes.ort_cuda import CUDA, OrtCuda
from ffn_export.runtimes.ort_session import CPU, OLDEST, OrtRunner, make_session, missing
from ffn_export.runtimes.threads import chosen_threads


class Session:
    """A loaded bundle.

    Attributes:
        manifest: Manifest of the bundle, with the entries of the graph that runs.
        directory: Directory of the bundle.

    Examples:
        >>> import numpy as np
        >>> session = fx.load("exported/d2l-ffn")
        >>> session.run({"x": np.zeros((2, 5, 4), np.float32)})["y"].shape
        (2, 5, 4)
    """

    def __init__(self, directory: Path, graph: Graph, runner: OrtRunner) -> None:
        self.directory = directory
        self.manifest = manifest = graph.manifest
        self._graph = graph
        self._runner = runner
        self._dtypes = {tensor["name"]: tensor["dtype"] for tensor in manifest.inputs}
        self._shapes = {tensor["name"]: tensor["shape"] for tensor in manifest.inputs}
        self._specs = manifest.declared
        self._axes = merge_dims(self._specs)

    @property
    def providers(self) -> list[str]:
        """The execution providers of the session."""
        providers: list[str] = self._runner.session.get_providers()
        return providers

    @property
    def info(self) -> dict[str, Any]:
        """What runs: ``graph`` and ``why`` this one, ``provider`` with its ``precision``, and ``nodes``.

        ``nodes`` is provider -> number of nodes that it computes. Nodes of native kernels count as one each; the
        precision of another provider is that of the graph.
        """
        provider, options = self.manifest.provider, self.manifest.provider_options
        precision = options.get("precision", "that of the graph")
        ran = {"provider": provider, "precision": precision, "nodes": self._runner.placement()}
        return {"graph": self._graph.file, "why": self._graph.why, **ran}

    def run(self, inputs: Mapping[str, Any]) -> dict[str, Array]:
        """Run the model.

        Args:
            inputs: Input name -> array of the shape and dtype in the manifest.

        Returns:
            Output name -> array.

        Raises:
            UsageError: If an input is missing, unknown, or of another dtype or shape, if a size is outside the bounds
                that its axis was exported and verified with, or if the model fails on it.
        """
        if not isinstance(inputs, Mapping):
            raise UsageError(f"inputs are a mapping of names to arrays, got {type(inputs).__name__}")
        arrays = {name: as_array(value) for name, value in inputs.items()}
        missing = [name for name in self._dtypes if name not in arrays]
        unknown = [name for name in arrays if name not in self._dtypes]
        if missing or unknown:
            raise UsageError(
                f"the model takes {', '.join(self._dtypes)}; got {', '.join(map(str, arrays)) or 'nothing'}"
            )
        for name, array in arrays.items():
            if array.dtype.name != self._dtypes[name]:
                raise UsageError(f"input {name!r} is {array.dtype.name}, the model takes {self._dtypes[name]}")
            if not _fits(array.shape, self._shapes[name]):
                takes = ",".join(map(str, self._shapes[name]))
                raise UsageError(f"input {name!r} has the shape {list(array.shape)}, the model takes [{takes}]")
        self._check_axes(arrays)
        try:
            return self._runner.run(arrays)
        except FfnExportError:
            raise
        except Exception as error:
            raise UsageError(f"the model does not run on these inputs: {first_line(error)}") from error

    def _check_axes(self, arrays: Mapping[str, Array]) -> None:
        """Refuse inputs that give an axis of one name two sizes, or one outside its bounds."""
        sizes: dict[str, tuple[int, str]] = {}
        for name, array in arrays.items():
            for axis, size in zip(self._shapes[name] or (), array.shape, strict=False):
                known, of = sizes.setdefault(str(axis), (size, name))
                if size != known:
                    raise UsageError(f"axis {axis!r} is {known} in input {of!r} and {size} in {name!r}: give one size")
                dim = self._axes.get(str(axis))
                if dim is not None and dim.clamp(size) != size:
                    raise UsageError(f"axis {axis!r} is {size} in input {name!r}, the bundle declares {dim}")
        self._check_sums({axis: size for axis, (size, _) in sizes.items()})

    def _check_sums(self, sizes: Mapping[str, int]) -> None:
        """Refuse an axis that is not the sum of those that it is declared as the sum of."""
        for spec in self._specs:
            for total in spec.derived.values():
                size = sizes.get(total.name)
                if size is not None and all(term in sizes for term in total.terms) and size != total.size(sizes):
                    raise UsageError(
                        f"axis {total.name!r} is {size} in input {spec.name!r}, the other inputs make it "
                        f"{total.size(sizes)}"
                    )


def _fits(shape: Sequence[int], taken: Sequence[int | str] | None) -> bool:
    """Whether a shape has the rank and the static sizes of an input; any shape fits an input without one."""
    if taken is None:
        return True
    pairs = zip(shape, taken, strict=False)
    return len(shape) == len(taken) and all(not isinstance(size, int) or size == n for n, size in pairs)


def load(directory: Path | str, *, threads: int | None = None) -> Session:
    """Load a bundle, after checking that its model files are those that were verified.

    Of a bundle with graphs for several kinds of processor, it takes the one for this machine, or else the default.
    This takes NumPy and onnxruntime, and ml_dtypes for a bundle whose inputs or outputs are bfloat16; nothing else
    that ffn-export depends on is needed. Another onnxruntime than that of the verification is warned of.

    Args:
        directory: The bundle.
        threads: Intra-op threads; None means the number of processors available to this process.

    Raises:
        IntegrityError: If the directory is no bundle, a file differs, or the model reads files outside the bundle.
        UsageError: If the directory does not exist, the execution provider is unknown, or ONNX Runtime cannot load
            the model.
        RuntimeUnavailableError: If the execution provider is not available. No other provider is used in its place,
            since it would compute something else. Or if onnxruntime is too old.
        MissingPackageError: If one of these packages is not installed.

    Examples:
        >>> session = fx.load("exported/d2l-ffn")
        >>> session.providers
        ['CPUExecutionProvider']
    """
    directory = Path(directory)
    if not directory.is_dir():
        raise UsageError(f"no such bundle: {directory}")
    manifest = read_manifest(directory)
    graph = manifest.graph_for(processor.kind())
    integrity.check(directory, manifest, graph=graph.file)
    with needing(f"ffn_export.load of {directory}", install=None):
        _check_dtypes(manifest)
        _check_version(directory, graph.manifest)
        return Session(directory, graph, _runner(directory / graph.file, graph.manifest, threads))


def _check_dtypes(manifest: Manifest) -> None:
    """Import what NumPy needs for the arrays of a bundle, before they are asked for."""
    if any(tensor["dtype"] == "bfloat16" for tensor in (*manifest.inputs, *manifest.outputs)):
        numpy_dtype("bfloat16")


def _check_version(directory: Path, manifest: Manifest) -> None:
    """Warn of another onnxruntime than that of the verification; Python shows a warning of one text once."""
    import onnxruntime

    versions = (manifest.environment or {}).get("versions", {})
    verified = {versions[name] for name in ("onnxruntime", "onnxruntime-gpu") if name in versions}
    if verified and onnxruntime.__version__ not in verified:
        warnings.warn(
            f"{directory} was verified on onnxruntime {' and '.join(sorted(verified))} and this is "
            f"{onnxruntime.__version__}: `ffn-export verify` tells whether it holds here too. The oldest that works is "
            f"{OLDEST}.",
            stacklevel=3,
        )


def _runner(model: Path, manifest: Manifest, threads: int | None) -> OrtRunner:
    """Make a session on the execution provider that the bundle was verified on."""
    artifact = Artifact(model, None, manifest.session_options)
    reason = missing(artifact)
    if reason is not None:
        raise RuntimeUnavailableError(reason)
    if manifest.provider == CPU.name:
        return OrtRunner(make_session(model, manifest.session_options, threads))
    if manifest.provider == CUDA.name:
        return OrtGpuRunner(OrtCuda().proven_session(artifact, chosen_threads(threads)))
    if manifest.provider == ort_native.NAME:
        runtime = ort_native.BY_PRECISION.get(manifest.provider_options.get("precision", ""))
        if runtime is not None:
            return OrtRunner(runtime.proven_session(artifact, threads))
    raise UsageError(f"{model.parent} was verified on {manifest.provider}, which is not known here")
