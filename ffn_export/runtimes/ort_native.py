"""ONNX Runtime with the execution provider of ``native/``, and all nodes that it does not claim on the CPU.

The provider is a package of its own, ``onnxruntime-ep-ffn``. It claims nodes of the domain ``ai.ffn_export``, which the
target ``ort-native`` writes. A model of which it claims no node is ``unavailable`` here: it would be timed as another
runtime.

Each precision is a runtime of its own: ``ort-native`` computes in float32, ``ort-native-bf16`` in bfloat16, and
``ort-native-int8`` in 8-bit integers, with a scale for each group of a token and of a column of weights.
"""

from __future__ import annotations

import importlib
import importlib.util
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ffn_export.errors import RuntimeUnavailableError, UsageError, did_you_mean
from ffn_export.runtimes import ort_session
from ffn_export.runtimes.base import Artifact, Runner, Runtime
from ffn_export.runtimes.ort_session import OrtRunner, Provider, make_session, operators_by_provider

if TYPE_CHECKING:
    import onnxruntime

NAME = "FfnExecutionProvider"
PACKAGE = "onnxruntime_ep_ffn"


@dataclass(eq=False)
class OrtNative(Runtime):
    """A runtime with the provider in one precision.

    Attributes:
        name: Name on the command line.
        precision: Value of the provider option ``precision``.
        dtype: Dtype of the products in messages.
    """

    name: str
    precision: str
    dtype: str

    @property
    def provider(self) -> Provider:
        """The provider with its options; onnxruntime adds its CPU provider for all other nodes."""
        return Provider(NAME, {"precision": self.precision})

    def unavailable(self, artifact: Artifact) -> str | None:
        """Return why a package, model or kernel is missing, or None; the claimed nodes show only in loading."""
        return ort_session.missing(artifact) or provider_problem(self.precision)

    def load(self, artifact: Artifact, threads: int) -> Runner:
        """Make a session, and prove that the provider computes at least one node of it."""
        from ffn_export.core import onnx_file
        from ffn_export.runtimes.precision import described, graph_dtypes

        session = self.proven_session(artifact, threads)
        assert artifact.model_path is not None
        dtypes = graph_dtypes(onnx_file.load(artifact.model_path))
        return OrtRunner(session, described({*dtypes, self.dtype}), ends=True)

    def proven_session(self, artifact: Artifact, threads: int | None) -> onnxruntime.InferenceSession:
        """Make the session of :meth:`load`.

        Raises:
            RuntimeUnavailableError: If the provider is missing, has no such kernel, or claims no node.
            UsageError: If onnxruntime refuses the model.
        """
        session = make_session(self.model_of(artifact), artifact.settings, threads, provider=self.provider)
        if NAME not in operators_by_provider(session):
            raise RuntimeUnavailableError(
                f"{NAME} claims no node of this model: it has none in float32, which `fuse --target ort-native` writes"
                " for feed-forwards, linear layers and attention"
            )
        return session


FLOAT32 = OrtNative("ort-native", "f32", "float32")
BFLOAT16 = OrtNative("ort-native-bf16", "bf16", "bfloat16")
INT8 = OrtNative("ort-native-int8", "int8", "int8")
BY_PRECISION = {each.precision: each for each in (FLOAT32, BFLOAT16, INT8)}


def of_precision(precision: str) -> OrtNative:
    """Return the runtime of a precision.

    Raises:
        UsageError: If there is none.
    """
    if precision not in BY_PRECISION:
        known = ", ".join(BY_PRECISION)
        raise UsageError(f"unknown precision {precision!r};{did_you_mean(precision, BY_PRECISION)} known are {known}")
    return BY_PRECISION[precision]


def of_lower_precision(precision: str | None) -> OrtNative | None:
    """Return the runtime of a precision that computes in fewer bits than float32; None if it does not.

    Raises:
        UsageError: If the precision is unknown.
    """
    runtime = FLOAT32 if precision is None else of_precision(precision)
    return None if runtime is FLOAT32 else runtime


def provider_problem(precision: str) -> str | None:
    """Register the provider, once per process; return why it is not there in this precision, or None."""
    if importlib.util.find_spec(PACKAGE) is None:
        return "onnxruntime-ep-ffn is not installed: native/README.md says how to build it"
    package: Any = importlib.import_module(PACKAGE)
    reason: str | None = package.register()
    if reason is not None:
        return reason
    metadata = package.devices()[0].ep_metadata  # onnxruntime adds keys of its own
    kernels = [each for each in BY_PRECISION if each in metadata]
    if precision not in kernels:
        return f"{NAME} has no {precision} kernel for this processor; it has {', '.join(kernels)}"
    return None
