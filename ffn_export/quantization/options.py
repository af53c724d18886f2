"""Options of the quantisation, and the combinations that are known to be slow."""

from __future__ import annotations

from dataclasses import dataclass

from ffn_export.errors import UsageError

BITS = (8, 4)
# Values that ONNX Runtime's MatMulNBits supports.
BLOCKS = (16, 32, 64, 128, 256)
LEVELS = (0, 1, 4)
INTEGERS = 4
# 8 bits at accuracy level 4 give an error of 1.0 % on a bare feed-forward with random weights, and less with a
# residual sum around it.
DEFAULT_BUDGET = 0.02
DRAWN = "judged on drawn inputs, which are no real activations: give samples of your own"


@dataclass(frozen=True)
class QuantizationOptions:
    """How matrices are quantised.

    Attributes:
        bits: Bits of a stored number, 8 or 4.
        block: Numbers along the input axis that share a scale: a power of two from 16 to 256.
        accuracy_level: Arithmetic of the product: float32 at 0 and 1, 8-bit integers at 4. At 4 the input is rounded
            too, block by block.
        all_products: Quantise every product with a constant matrix, not only those of feed-forwards.

    Raises:
        UsageError: If the operator does not support a value.
    """

    bits: int = 8
    block: int = 32
    accuracy_level: int = INTEGERS
    all_products: bool = False

    def __post_init__(self) -> None:
        for name, value, known in (
            ("a number of bits", self.bits, BITS),
            ("a block", self.block, BLOCKS),
            ("an accuracy level", self.accuracy_level, LEVELS),
        ):
            if value not in known:
                raise UsageError(f"{name} of {value} is not known: take {', '.join(map(str, known))}")

    def command_line(self) -> tuple[str, ...]:
        """Return the equivalent options of ``ffn-export build``."""
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
