"""Parity assertion for any test framework. The pytest plugin builds on it.

Importing this module is light: torch loads with the first assertion.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from ffn_export.errors import UsageError

if TYPE_CHECKING:
    from ffn_export.core.source_options import SourceOptions
    from ffn_export.exporter.examples import Inputs
    from ffn_export.parity.judging.result import ParityResult
    from ffn_export.parity.judging.tolerances import Tolerances
    from ffn_export.verbs.open_model import Model
    from ffn_export.verbs.source_spec import Subject

__all__ = ["assert_parity"]


def assert_parity(
    reference: Subject | Path | None,
    model: Model,
    *,
    inputs: Inputs | None = None,
    samples: Mapping[str, Any] | None = None,
    runtimes: Sequence[str] | None = None,
    tolerances: Tolerances | None = None,
    atol: float | None = None,
    rtol: float | None = None,
    input_seed: int | None = None,
    threads: int | None = None,
    jobs: int = 1,
    failures: Path | str | None = None,
    **source: Unpack[SourceOptions],
) -> ParityResult:
    """Assert that an ONNX model computes the same outputs as its reference, over a sweep of sizes and values.

    Args:
        reference: A ``torch.nn.Module``, a SPEC such as ``"my.models:encoder"``, or another ``.onnx`` file. None is
            for a bundle: its preset, with ``trust`` the source named in its manifest, otherwise its test vectors.
        model: An ``.onnx`` file, a bundle's directory, or an ``onnx_ir.Model``.
        inputs: Inputs of the module, ``{"x": "float32[batch,seq,768]"}``; None means the inputs of the graph.
        samples: Input name -> array, verified in addition to the drawn inputs.
        runtimes: Names of required runtimes; None means every runtime that can run the model here.
        tolerances: Allowed error; None means the defaults, derived from PyTorch's own error.
        atol: The classic test instead, ``error <= atol + rtol * |oracle|`` for every element; 0 if only rtol is given.
        rtol: See ``atol``.
        input_seed: Seed of the drawn inputs; None means the seed of the weights, otherwise 0.
        threads: Intra-op threads; None means the number of processors available to this process.
        jobs: Number of cases that run at the same time.
        failures: Directory for the inputs of failing cases, as ONNX test vectors; None keeps none.
        source: How the reference is loaded (:class:`~ffn_export.core.source_options.SourceOptions`): ``seed``,
            ``dtype``, ``keep_io``, ``task``, ``trust``.

    Returns:
        The verification, for further assertions.

    Raises:
        AssertionError: If parity failed. The message has the verdict, the worst case of each runtime, the first
            failures, and a command that runs the verification again.
        UsageError: If a named thing does not exist, an argument has another type, or both ``tolerances`` and ``atol``
            or ``rtol`` are given.
        RuntimeUnavailableError: If a runtime requested by name cannot run here.

    Examples:
        >>> from ffn_export.testing import assert_parity
        >>> assert_parity("d2l-ffn", "model.onnx", runtimes=["ort-cpu"]).passed
        True
    """
    __tracebackhide__ = True
    options: dict[str, Any] = {
        "inputs": inputs,
        "samples": samples,
        "runtimes": runtimes,
        "tolerances": tolerances,
        "atol": atol,
        "rtol": rtol,
        "input_seed": input_seed,
        "threads": threads,
        "jobs": jobs,
        "failures": failures,
        **source,
    }
    result = judge(reference, model, **options)
    require(result, reference, model, **options)
    return result


def judge(
    reference: Subject | Path | None,
    model: Model,
    *,
    tolerances: Tolerances | None = None,
    atol: float | None = None,
    rtol: float | None = None,
    **options: Any,
) -> ParityResult:
    """Verify with the arguments of :func:`assert_parity`, and return the result, passed or failed."""
    import ffn_export as fx
    from ffn_export.parity.judging.tolerances import Closeness, Tolerances

    if atol is not None or rtol is not None:
        if tolerances is not None:
            raise UsageError("pass either tolerances or atol and rtol: tolerances hold both as closeness")
        tolerances = Tolerances(closeness={"*": Closeness(atol or 0.0, rtol or 0.0)})
    return fx.verify(model, reference, tolerances=tolerances, **options)


def require(result: ParityResult, reference: Subject | Path | None, model: Model, **options: Any) -> None:
    """Raise an error if a result of :func:`judge`, made with the same arguments, failed.

    Raises:
        AssertionError: If the result failed.
    """
    __tracebackhide__ = True
    if result.passed:
        return
    from ffn_export.reports.assertion import assertion_text

    raise AssertionError(assertion_text(result, replay_command(result, reference, model, **options)))


def replay_command(result: ParityResult, reference: Subject | Path | None, model: Model, **options: Any) -> str:
    """Return a command that runs a failed verification again.

    This is an ``ffn-export`` command if reference and model are files or SPECs. A module or model in memory, samples
    and Tolerances exist only in the test, so the command then runs the test again.
    """
    from ffn_export.core.tensor_spec import parse_inputs

    known = reference is None or isinstance(reference, str | Path)
    given = [name for name in ("samples", "tolerances") if options.get(name) is not None]
    if not (known and isinstance(model, str | Path)) or given:
        test = os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" ")[0]
        return shlex.join(["pytest", test]) if test else "run this again: its inputs are drawn from the same seed"
    failing = dict.fromkeys(case.runtime for case in result.cases if case.status(result.tolerances) == "failed")
    words = ["ffn-export", "verify", str(model)]
    words += [] if reference is None else ["--against", str(reference)]
    if options.get("inputs") is not None:
        words += [word for spec in parse_inputs(options["inputs"]) for word in ("--input", f"{spec.name}:{spec}")]
    words += [word for name in failing for word in ("--runtime", name)]
    for name in ("atol", "rtol", "seed", "input_seed", "task", "threads"):
        if options.get(name) is not None:
            words += [f"--{name.replace('_', '-')}", str(options[name])]
    words += ["--dtype", options["dtype"]] if options.get("dtype") else []
    words += ["--keep-io"] if options.get("keep_io") else []
    words += ["--trust"] if options.get("trust") else []
    saved = next((case.saved for case in result.cases if case.saved is not None), None)
    words += [] if saved is None else ["--load-inputs", saved]
    return shlex.join(words)
