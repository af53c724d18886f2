"""Input specifications such as ``x:float32[batch,seq<=512,768]``.

Grammar (blanks around names, numbers and signs are ignored)::

    NAME:DTYPE[DIM,...]{VALUES}
    VALUES = LOW..HIGH | mask
    DIM = 768 | seq | seq<=512 | 2<=seq<=512 | seq>=2 | past+seq

A number is a static dimension. A name is a symbolic dimension, with optional inclusive bounds. A sum of names is a
derived dimension: its size follows from symbolic dimensions. The optional braces say how values are drawn: within
inclusive bounds, as in ``{0..255}`` or, for floats, ``{-1.5..1.5}``; or as a mask, which is 1 for tokens and 0 for
padding, with at least one 1 along the last axis.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from ffn_export.errors import UsageError, did_you_mean

DTYPES = (
    "float32",
    "float64",
    "float16",
    "bfloat16",
    "int64",
    "int32",
    "int16",
    "int8",
    "uint8",
    "bool",
)

_NAME = r"[A-Za-z_]\w*(?:\.\w+)*"
_NUMBER = r"-?\d+(?:\.\d+)?(?:e[+-]?\d+)?"
_TENSOR = re.compile(
    r"(?P<dtype>\w+)\[(?P<dims>[^\[\]]*)\]"
    rf"(?:\{{(?:(?P<low>{_NUMBER})\.\.(?P<high>{_NUMBER})|(?P<mask>mask))\}})?",
    re.ASCII,
)
_DIM = re.compile(rf"(?:(?P<low>\d+)<=)?(?P<name>{_NAME})(?:<=(?P<high>\d+)|>=(?P<low2>\d+))?", re.ASCII)
_SUM = re.compile(rf"{_NAME}(?:\+{_NAME})+", re.ASCII)
_BLANKS = re.compile(r"\s*(<=|>=|\.\.|[\[\],{}+])\s*")

# No larger tensor fits into memory, and the libraries below would fail with unclear errors.
_LARGEST_SIZE = 2**31 - 1

_LARGEST_FLOAT = {"float16": 65504, "bfloat16": 3e38, "float32": 3e38, "float64": 1e308}

EXAMPLE = "x:float32[batch,seq,768]"


@dataclass(frozen=True)
class Dim:
    """A symbolic dimension with inclusive bounds; ``maximum`` None means unbounded."""

    name: str
    minimum: int = 0
    maximum: int | None = None

    def clamp(self, size: int) -> int:
        """Return the size nearest to ``size`` within the bounds."""
        size = max(size, self.minimum)
        return size if self.maximum is None else min(size, self.maximum)

    def __str__(self) -> str:
        low = f"{self.minimum}<=" if self.minimum else ""
        high = "" if self.maximum is None else f"<={self.maximum}"
        return f"{low}{self.name}{high}"


@dataclass(frozen=True)
class Sum:
    """A derived dimension: the sum of the symbolic dimensions of these names."""

    terms: tuple[str, ...]

    @property
    def name(self) -> str:
        """The sum as it is written."""
        return "+".join(self.terms)

    def size(self, sizes: Mapping[str, int]) -> int:
        """Return the size that follows from those of the symbolic dimensions."""
        return sum(sizes[term] for term in self.terms)

    def __str__(self) -> str:
        return self.name


Axis = int | Dim | Sum
"""A static size, a symbolic dimension or a derived one."""


@dataclass(frozen=True)
class TensorSpec:
    """Name, element type and shape of one graph input.

    Attributes:
        name: The graph input's name.
        dtype: One of :data:`DTYPES`.
        dims: One entry per axis.
        value_range: Inclusive bounds of drawn values, whole numbers for integers. None derives those of integers, and
            draws standard normal floats.
        is_mask: Whether values are drawn as a padding mask.
        range_is_guessed: Whether the range was guessed, so that integers outside it may be accepted, too. It is not
            written, and two specs that differ in it alone are equal.
    """

    name: str
    dtype: str
    dims: tuple[Axis, ...]
    value_range: tuple[float, float] | None = None
    is_mask: bool = False
    range_is_guessed: bool = field(default=False, compare=False)

    def __post_init__(self) -> None:
        if self.dtype not in DTYPES:
            raise UsageError(
                f"input {self.name!r} has unknown dtype {self.dtype!r};{did_you_mean(self.dtype, DTYPES)} known: "
                f"{', '.join(DTYPES)}"
            )

        if self.is_mask and self.is_floating:
            raise UsageError(f"input {self.name!r} is {self.dtype}, a mask is of integers or bool: leave {{mask}} out")

    @classmethod
    def parse(cls, text: str) -> TensorSpec:
        """Parse ``NAME:DTYPE[DIM,...]``.

        Raises:
            UsageError: If the text does not follow the grammar; the message shows an example.
        """
        name, colon, tensor = text.partition(":")
        if not colon:
            raise UsageError(f"input {text!r} does not parse: write NAME:DTYPE[DIM,...], as in '{EXAMPLE}'")
        return cls.parse_tensor(name.strip(), tensor)

    @classmethod
    def parse_tensor(cls, name: str, text: str) -> TensorSpec:
        """Parse the part after the colon, ``DTYPE[DIM,...]{VALUES}``.

        Raises:
            UsageError: As for :meth:`parse`.
        """
        if not re.fullmatch(_NAME, name, re.ASCII):
            raise UsageError(
                f"input name {name!r} does not parse: write NAME:DTYPE[DIM,...] with letters, digits, '_' and '.' "
                f"in the name, as in '{EXAMPLE}'"
            )
        match = _TENSOR.fullmatch(_BLANKS.sub(r"\1", text.strip()))
        if not match:
            raise UsageError(
                f"type {text!r} of input {name!r} does not parse: write DTYPE[DIM,...], as in 'float32[batch,seq,768]'"
            )
        dtype = match["dtype"]
        dims = tuple(_parse_dim(name, dim) for dim in match["dims"].split(",")) if match["dims"] else ()
        value_range = None if match["low"] is None else (_number(match["low"]), _number(match["high"]))
        spec = cls(name, dtype, dims, value_range, is_mask=match["mask"] is not None)
        if value_range:
            _check_value_range(spec, *value_range)
        return spec

    @property
    def symbolic(self) -> dict[int, Dim]:
        """Axis -> symbolic dimension, for the symbolic axes."""
        return {axis: dim for axis, dim in enumerate(self.dims) if isinstance(dim, Dim)}

    @property
    def derived(self) -> dict[int, Sum]:
        """Axis -> derived dimension, for the axes whose size follows from others."""
        return {axis: dim for axis, dim in enumerate(self.dims) if isinstance(dim, Sum)}

    @property
    def is_floating(self) -> bool:
        """Whether the elements are floating-point numbers."""
        return "float" in self.dtype

    def shape(self, sizes: Mapping[str, int]) -> tuple[int, ...]:
        """Return the concrete shape for the given sizes of the symbolic dimensions."""
        return tuple(
            dim if isinstance(dim, int) else sizes[dim.name] if isinstance(dim, Dim) else dim.size(sizes)
            for dim in self.dims
        )

    def __str__(self) -> str:
        values = "" if self.value_range is None else _braces(*self.value_range)
        return f"{self.dtype}[{','.join(map(str, self.dims))}]{'{mask}' if self.is_mask else values}"


def _number(text: str) -> float:
    return int(text) if re.fullmatch(r"-?\d+", text) else float(text)


def _braces(low: float, high: float) -> str:
    return f"{{{low!r}..{high!r}}}"


def _check_value_range(spec: TensorSpec, low: float, high: float) -> None:
    written = f"value range {_braces(low, high)} of input {spec.name!r}"
    if low > high:
        raise UsageError(f"{written} is empty: write the smaller number first")
    if spec.is_floating:
        lowest, highest = -_LARGEST_FLOAT[spec.dtype], _LARGEST_FLOAT[spec.dtype]
    elif isinstance(low, float) or isinstance(high, float):
        raise UsageError(f"{written} is of floats, the input is {spec.dtype}: write whole numbers")
    else:
        bits = 1 if spec.dtype == "bool" else int(re.sub(r"\D", "", spec.dtype))
        is_signed = spec.dtype.startswith("int")
        lowest, highest = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if is_signed else (0, 2**bits - 1)
    if low < lowest or high > highest:
        raise UsageError(f"{written} does not fit {spec.dtype}: stay within {_braces(lowest, highest)}")


def _parse_dim(input_name: str, text: str) -> Axis:
    if any(int(number) > _LARGEST_SIZE for number in re.findall(r"[0-9]+", re.sub(_NAME, "", text))):
        raise UsageError(f"dimension {text!r} of input {input_name!r} is too large: write at most {_LARGEST_SIZE}")
    if re.fullmatch(r"[0-9]+", text):
        return int(text)
    if _SUM.fullmatch(text):
        return Sum(tuple(text.split("+")))
    match = _DIM.fullmatch(text)
    if not match:
        raise UsageError(
            f"dimension {text!r} of input {input_name!r} does not parse: write a size, a name, a bounded name such as "
            "2<=seq<=512, or a sum of names such as past+seq"
        )
    low = int(match["low"] or match["low2"] or 0)
    high = None if match["high"] is None else int(match["high"])
    if high is not None and high < low:
        raise UsageError(f"dimension {text!r} of input {input_name!r} has no size within its bounds")
    return Dim(match["name"], low, high)


InputSpecs = Mapping[str, "str | TensorSpec"] | Iterable["str | TensorSpec"]


def parse_inputs(inputs: InputSpecs) -> tuple[TensorSpec, ...]:
    """Parse inputs given as a mapping name -> type, or as ``NAME:TYPE`` strings.

    The bounds of a symbolic dimension in one input apply to every input that has the dimension.

    Raises:
        UsageError: If an input does not parse, a name is given twice, a symbolic dimension has only one size, or a
            derived one has a term that no axis has.
    """
    if isinstance(inputs, Mapping):
        specs = [
            replace(spec, name=name)
            if isinstance(spec, TensorSpec)
            else TensorSpec.parse_tensor(name, _text(spec, f"input {name!r}"))
            for name, spec in inputs.items()
        ]
    else:
        given = [inputs] if isinstance(inputs, str) or not isinstance(inputs, Iterable) else inputs
        specs = [spec if isinstance(spec, TensorSpec) else TensorSpec.parse(_text(spec, "an input")) for spec in given]
    names = [spec.name for spec in specs]
    for name in names:
        if names.count(name) > 1:
            raise UsageError(f"input {name!r} is given twice")
    dims = merge_dims(specs)
    for dim in dims.values():
        if dim.minimum == dim.maximum:
            raise UsageError(f"dimension '{dim}' has one size only: write {dim.minimum} instead of the name")
    for spec in specs:
        for total in spec.derived.values():
            unknown = next((term for term in total.terms if term not in dims), None)
            if unknown is not None:
                raise UsageError(
                    f"dimension '{total}' of input {spec.name!r} adds {unknown!r}, which is no axis of an input;"
                    f"{did_you_mean(unknown, dims)} the axes are {', '.join(dims) or 'none'}"
                )
    return tuple(
        replace(spec, dims=tuple(dims[d.name] if isinstance(d, Dim) else d for d in spec.dims)) for spec in specs
    )


def _text(spec: object, what: str) -> str:
    if not isinstance(spec, str):
        raise UsageError(f"{what} is given as {type(spec).__name__}: write its type as text, as in '{EXAMPLE}'")
    return spec


def symbolic_axis(text: str, known: Container[str]) -> Dim | Sum:
    """Return the axis that a graph describes by a text: a sum if it adds known axes, else one of this name."""
    terms = tuple(text.replace(" ", "").split("+"))
    return Sum(terms) if len(terms) > 1 and all(term in known for term in terms) else Dim(text)


def merge_dims(specs: Iterable[TensorSpec]) -> dict[str, Dim]:
    """Return every symbolic dimension by name, with its bounds intersected over all inputs.

    Raises:
        UsageError: If the bounds of a dimension exclude each other.
    """
    dims: dict[str, Dim] = {}
    for spec in specs:
        for dim in spec.symbolic.values():
            seen = dims.get(dim.name, dim)
            highs = [d.maximum for d in (seen, dim) if d.maximum is not None]
            merged = Dim(dim.name, max(seen.minimum, dim.minimum), min(highs) if highs else None)
            if merged.maximum is not None and merged.maximum < merged.minimum:
                raise UsageError(f"dimension {dim.name!r} has no size within all of its bounds")
            dims[dim.name] = merged
    return dims


def token_inputs(specs: Sequence[TensorSpec]) -> Sequence[TensorSpec]:
    """Return the inputs of tokens that are computed: all but a cache and the mask over it.

    A mask over a cache has a derived axis. The axes of a cache are terms of it that no input of whole numbers has.
    """
    numbers = {dim.name for spec in specs if not spec.is_floating for dim in spec.symbolic.values()}
    cached = {term for spec in specs for total in spec.derived.values() for term in total.terms} - numbers
    new = [s for s in specs if not s.derived and not any(dim.name in cached for dim in s.symbolic.values())]
    return new or specs
