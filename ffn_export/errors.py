"""Errors that a user can act on, each with its exit status.

Every message is one line that says what to do. The command line prints it without a traceback and
exits with ``exit_status``. In Python they are ordinary exceptions.

Messages are written for the command line and name its options. Unless :func:`for_the_shell` is active, they name the
arguments of the Python functions in their place.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

# Option -> argument, where the name is another or the option has no value. Others only change dashes to underscores.
_ARGUMENTS = {
    "input": "inputs=",
    "reduce": "reduce_to=",
    "all": "all_products=True",
    "bits": "quantization=",
    "trust": "trust=True",
    "no-check": "check=False",
}
_OPTION = re.compile(r"(?<![\w-])--([a-z]+(?:-[a-z]+)*)(?: (ort-\w+|[0-9]+|'?[\w.]+:DTYPE[^ ]+))?")
_SHELL = [False]


@contextmanager
def for_the_shell(*, is_shell: bool = True) -> Iterator[None]:
    """Let messages name the options of the command line; or within it, as for the keys of a file, those of Python."""
    before, _SHELL[0] = _SHELL[0], is_shell
    try:
        yield
    finally:
        _SHELL[0] = before


def to_caller(message: str) -> str:
    """Return a message with the options that it names in the words of the caller: ``--against`` or ``against=``.

    What stands in backticks is a command and stays.
    """
    if _SHELL[0]:
        return message
    parts = message.split("`")
    return "`".join(part if index % 2 else _OPTION.sub(_argument, part) for index, part in enumerate(parts))


def _argument(match: re.Match[str]) -> str:
    argument = _ARGUMENTS.get(match[1], f"{match[1].replace('-', '_')}=")
    value = (match[2] or "").strip("'")
    return argument + (value if value.isdigit() or not value else repr(value))


class FfnExportError(Exception):
    """Base of all errors raised on purpose by this package.

    Examples:
        >>> try:
        ...     fx.create("bert-fnn")
        ... except fx.FfnExportError as error:
        ...     error.exit_status
        2
    """

    exit_status = 2

    def __init__(self, message: str | None = None) -> None:
        super().__init__(*(() if message is None else (to_caller(message),)))


class UsageError(FfnExportError, ValueError):
    """Bad usage or bad input: a misspelt name, a missing file, an option that does not parse.

    Examples:
        >>> try:
        ...     fx.create("bert-fnn")
        ... except fx.UsageError as error:
        ...     print(str(error).partition(" known")[0])
        unknown preset 'bert-fnn': did you mean 'bert-ffn'?
    """


class ExportError(FfnExportError):
    """The module cannot be exported as requested: a specialised axis, an unsupported operator or opset.

    Examples:
        >>> import torch
        >>> class Fixed(torch.nn.Module):
        ...     def forward(self, x):
        ...         return x.reshape(4, 8) * 2
        >>> try:
        ...     fx.export(Fixed(), {"x": "float32[batch,8]"})
        ... except fx.ExportError:
        ...     print("forward takes 4 rows only")
        forward takes 4 rows only
    """


class IntegrityError(FfnExportError):
    """A bundle differs from its manifest: a hash differs, or a file is missing or lies outside the bundle.

    Examples:
        >>> try:
        ...     fx.load(".")
        ... except fx.IntegrityError:
        ...     print("no bundle")
        no bundle
    """

    exit_status = 1


class GateError(FfnExportError):
    """A quality gate failed: parity, fusion or latency.

    Attributes:
        result: The measured result; None if it is not available.

    Examples:
        >>> try:
        ...     fx.build("d2l-ffn", require_fusion={"feed_forward": 9}, fast=True)
        ... except fx.GateError as error:
        ...     error.exit_status
        1
    """

    exit_status = 1

    def __init__(self, message: str, result: object = None) -> None:
        super().__init__(message)
        self.result = result


class MissingPackageError(FfnExportError, ImportError):
    """A package that this part of ffn-export needs is not installed, as where bundles are only loaded.

    Examples:
        >>> issubclass(fx.MissingPackageError, ImportError)
        True
    """


class RuntimeUnavailableError(FfnExportError):
    """A runtime requested by name is not available on this machine.

    Attributes:
        runtime: Its name, where one of several was requested.

    Examples:
        >>> issubclass(fx.RuntimeUnavailableError, fx.FfnExportError)
        True
        >>> fx.RuntimeUnavailableError.exit_status
        3
    """

    exit_status = 3

    def __init__(self, message: str | None = None, runtime: str | None = None) -> None:
        super().__init__(message)
        self.runtime = runtime


@contextmanager
def needing(what: str, install: str | None = "ffn-export") -> Iterator[None]:
    """Turn a failed import of another package into one line that says what to install.

    Args:
        what: What needs the package.
        install: What to install; None means the missing package itself.

    Raises:
        MissingPackageError: If a package other than this one is not installed.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package in ("", __name__.partition(".")[0]):
            raise
        raise MissingPackageError(
            f"{what} needs {package}, which is not installed: pip install {install or package}"
        ) from error


# Other libraries' names, which are no near misses of ours by their letters.
_ALIASES = {
    "float": "float32",
    "single": "float32",
    "fp32": "float32",
    "f32": "float32",
    "double": "float64",
    "fp64": "float64",
    "f64": "float64",
    "half": "float16",
    "fp16": "float16",
    "f16": "float16",
    "bf16": "bfloat16",
    "long": "int64",
    "int": "int64",
    "i64": "int64",
    "i32": "int32",
    "short": "int16",
    "byte": "uint8",
    "amp": "mixed",
    "onnxruntime": "ort-cpu",
    "ort": "ort-cpu",
    "cpu": "ort-cpu",
    "cuda": "ort-cuda",
    "gpu": "ort-cuda",
    "pytorch": "torch",
    "eager": "torch",
    "ffn": "feed_forward",
    "mlp": "feed_forward",
    "layer_norm": "norm",
}


def did_you_mean(name: object, known: Iterable[str]) -> str:
    """Return `` did you mean 'bert-ffn'?`` for the known name that is meant or nearest, or an empty string.

    The name may be no text, as in ``dtype=torch.float16`` from Python.
    """
    names = {each.lower(): each for each in known}
    word = str(name).lower().removeprefix("torch.")
    alias = _ALIASES.get(word, word)
    close = [alias] if alias in names else difflib.get_close_matches(word, list(names), n=1)
    return f" did you mean {names[close[0]]!r}?" if close else ""
