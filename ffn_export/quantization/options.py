"""Options of the quantisation, and the combinations that are known to be slow."""

from __future__ import annotations

from dataclasses import dataclass

from ffn_export.errors import UsageError
from ffn_export.quantization.engines import ENGINES

BITS = (8, 4)
# Values that ONNX Runtime's MatMulNBits supports.
BLOCKS = (16, 32, 64, 128, 256)
DEFAULT_BLOCK = 32
LEVELS = (0, 1, 4)
INTEGERS = 4
CALIBRATIONS = ("minmax", "percentile", "entropy")
# 8 bits at accuracy level 4 give an error of 1.0 % on a bare feed-forward with random weights, and less with a
# residual sum around it.
DEFAULT_BUDGET = 0.02
# On real samples, whole encoders with all products in 8-bit integers are within it; a broken scale is not.
INT8_BUDGET = 0.1
# Judged on samples, 8-bit activations may be further off on drawn inputs, whose channels are others. There, an error
# above this shows a broken model, such as one with a wrong scale or zero point. ``quantize`` reported 0.44 for five
# rare tokens of all-MiniLM-L6-v2, whose error on 200 texts was 0.05.
BROKEN = 0.6
DRAWN = "judged on drawn inputs, which are no real activations: give samples of your own"


def on_drawn(budget: float) -> float:
    """Return the budget on drawn inputs of a model that is judged on samples."""
    return max(BROKEN, budget)


@dataclass(frozen=True)
class QuantizationOptions:
    """How matrices are quantised.

    Attributes:
        bits: Bits of a stored number, 8 or 4.
        block: Numbers along the input axis that share a scale: a power of two from 16 to 256.
        accuracy_level: Arithmetic of the product: float32 at 0 and 1, 8-bit integers at 4. At 4 the input is rounded
            too, block by block.
        all_products: Quantise every product with a constant matrix, not only those of feed-forwards.
        int8: Compute products in 8-bit integers: weights with a scale for each column, activations with a scale for
            each row, or for all rows where that is about as accurate. ``bits``, ``block`` and ``accuracy_level`` keep
            their defaults.
        static: Engine that activations get one scale for, calibrated on samples: ``openvino``, ``tensorrt``, ``qnn``
            or ``coreml``. It implies ``int8``.
        calibration: How the range of a static activation is found: ``minmax``, ``percentile`` or ``entropy``.

    Raises:
        UsageError: If the operator does not support a value.

    Examples:
        >>> fx.QuantizationOptions(bits=4, block=16).command_line()
        ('--bits', '4', '--block', '16', '--accuracy-level', '4')
    """

    bits: int = 8
    block: int = DEFAULT_BLOCK
    accuracy_level: int = INTEGERS
    all_products: bool = False
    int8: bool = False
    static: str | None = None
    calibration: str = CALIBRATIONS[0]

    def __post_init__(self) -> None:
        for name, value, known in (
            ("a number of bits", self.bits, BITS),
            ("a block", self.block, BLOCKS),
            ("an accuracy level", self.accuracy_level, LEVELS),
        ):
            if value not in known:
                *first, last = map(str, known)
                raise UsageError(f"{name} of {value} is not supported: take {', '.join(first)} or {last}")
        for name, word, words in (
            ("an engine", self.static, (None, *ENGINES)),
            ("a calibration", self.calibration, CALIBRATIONS),
        ):
            if word not in words:
                raise UsageError(f"{name} {word!r} is not known: take {', '.join(filter(None, words))}")
        object.__setattr__(self, "int8", self.int8 or self.static is not None)
        if self.static is None and self.calibration != CALIBRATIONS[0]:
            raise UsageError("a calibration finds the ranges of static activations: take static, too")
        if self.int8 and (self.bits, self.block, self.accuracy_level) != (8, DEFAULT_BLOCK, INTEGERS):
            raise UsageError("bits, block and accuracy level are about weights in blocks, which --int8 does not have")

    @property
    def default_budget(self) -> float:
        """The budget if none is declared: the largest relative L2 error of an output."""
        return INT8_BUDGET if self.int8 else DEFAULT_BUDGET

    def drawn_budget(self, budget: float, *, sampled: bool) -> float | None:
        """Return the budget on drawn inputs, if it is another than that on the samples."""
        return on_drawn(budget) if self.int8 and sampled else None

    def command_line(self) -> tuple[str, ...]:
        """Return the equivalent options of ``ffn-export build``."""
        if self.int8:
            static = ("--static", self.static, "--calibration", self.calibration) if self.static is not None else ()
            return (*(static or ["--int8"]), *(["--all"] if self.all_products else []))
        named = {"--bits": self.bits, "--block": self.block, "--accuracy-level": self.accuracy_level}
        words = [word for name, value in named.items() for word in (name, str(value))]
        return (*words, *(["--all"] if self.all_products else []))

    def warnings(self) -> tuple[str, ...]:
        """Return warnings about combinations that are known to be slow."""
        if self.bits == 8 and self.accuracy_level != INTEGERS:
            return (
                f"8 bits at accuracy level {self.accuracy_level} have no fast kernel and are many times slower: "
                f"take accuracy level {INTEGERS}",
            )
        return ()
