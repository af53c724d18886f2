"""Options of samples: arrays, or texts for a tokenizer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from ffn_export.cli.options import PATH, Command, read_npz, several
from ffn_export.errors import UsageError

if TYPE_CHECKING:
    from ffn_export.exporter.hugging_face.texts import Texts


@dataclass(frozen=True)
class GivenSamples:
    """The files that were named.

    Attributes:
        arrays: File of arrays.
        texts: File of texts.
        tokenizer: Directory of the tokenizer; None means that of the model.
    """

    arrays: Path | None
    texts: Path | None
    tokenizer: Path | None

    def __post_init__(self) -> None:
        if self.arrays is not None and self.texts is not None:
            raise UsageError("--samples and --texts are both samples: give one of them")
        if self.tokenizer is not None and self.texts is None:
            raise UsageError("--tokenizer reads --texts: give them, too")

    def read(self) -> dict[str, Any] | Texts | None:
        """Return the arrays or the texts; None without either."""
        if self.texts is None:
            return read_npz(self.arrays)
        from ffn_export.exporter.hugging_face.texts import Texts

        return Texts(self.texts, self.tokenizer)


def sample_options(about: str) -> Callable[[Command], Command]:
    """Add ``--samples``, ``--texts`` and ``--tokenizer``; the command gets them as ``samples``."""
    options = several(
        click.option("--samples", type=PATH, metavar="FILE.npz", help=about),
        click.option(
            "--texts",
            type=PATH,
            metavar="FILE.txt",
            help="Samples as texts, one a line, read by the tokenizer of the model or in --tokenizer.",
        ),
        click.option("--tokenizer", type=PATH, metavar="DIR", help="Directory of the tokenizer."),
    )

    def decorate(command: Command) -> Command:
        @wraps(command)
        def gathered(
            *arguments: Any, samples: Path | None, texts: Path | None, tokenizer: Path | None, **given: Any
        ) -> Any:
            return command(*arguments, **given, samples=GivenSamples(samples, texts, tokenizer))

        return cast("Command", options(gathered))

    return decorate
