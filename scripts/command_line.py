"""What the scripts' command lines share: numbers that are checked, and progress."""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable


def whole(least: int) -> Callable[[str], int]:
    """Return a parser of whole numbers that are not below ``least``."""

    def parse(text: str) -> int:
        if not text.isdecimal() or int(text) < least:
            raise argparse.ArgumentTypeError(f"{text!r} is no whole number of {least} or more")
        return int(text)

    return parse


count = whole(1)


def seconds(text: str) -> float:
    """Parse a time above 0."""
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 < number < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of seconds above 0")
    return number


def say(*lines: str) -> None:
    """Print lines to standard error, at once."""
    print(*lines, sep="\n", file=sys.stderr, flush=True)
