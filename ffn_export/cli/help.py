"""Help of a command: options in groups, examples, and the page with more."""

from __future__ import annotations

import textwrap
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import click

from ffn_export.core.words import words

# Group -> its options, by parameter name. An option of no group is listed under "Other".
GROUPS: Mapping[str, Collection[str]] = {
    "Input": words(
        "inputs samples texts tokenizer dtype keep_io seed task trust opset against load_inputs input_seed tokens"
    ),
    "Fusion": words("target require_fusion check portable_functions"),
    "Quantisation": words("bits int8 static calibration block accuracy_level all_products precision"),
    "Gates": words("runtimes max_ratio budget metric atol rtol baseline rejudge exit_code"),
    "Work": words("fast threads jobs memory ray seconds bisect max_cpu max_memory"),
    "Output": words("output name triton share_weights plot reduce_to failures save_outputs verbose quiet debug"),
}


class Formatter(click.HelpFormatter):
    """click's formatter without breaks at hyphens, which would cut ``ort-cpu`` and ``--no-check`` in two."""

    def write_text(self, text: str) -> None:
        """Write paragraphs."""
        paragraphs = (" ".join(paragraph.split()) for paragraph in text.split("\n\n"))
        indent = " " * self.current_indent
        self.write("\n\n".join(indent + f"\n{indent}".join(self._wrapped(text, len(indent))) for text in paragraphs))
        self.write("\n")

    def write_dl(self, rows: Iterable[tuple[str, str]], col_max: int = 30, col_spacing: int = 2) -> None:
        """Write terms and their descriptions in two columns; a long term has a line to itself."""
        rows, indent = list(rows), " " * self.current_indent
        column = min(max(len(term) for term, _ in rows), col_max) + col_spacing
        for term, description in rows:
            lines = self._wrapped(description, len(indent) + column) or [""]
            first = [] if len(term) <= column - col_spacing else [term]
            shown = [*first, *(" " * column + line for line in lines)]
            shown[0] = shown[0] if first else term + shown[0][len(term) :]
            self.write("".join(f"{indent}{line}".rstrip() + "\n" for line in shown))

    def _wrapped(self, text: str, indent: int) -> list[str]:
        return textwrap.wrap(text, max(self.width - indent, 20), break_on_hyphens=False, break_long_words=False)


class Context(click.Context):
    """click's context with our formatter."""

    formatter_class = Formatter


class Command(click.Command):
    """A command whose help has groups of options, examples, and a page with more.

    Attributes:
        examples: Command lines without ``ffn-export`` in front.
        page: The page with more, in the repository.
    """

    context_class = Context

    def __init__(self, *arguments: Any, examples: Sequence[str] = (), page: str = "", **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.examples, self.page = examples, page

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options, a section for each group."""
        options = (param for param in self.get_params(ctx) if isinstance(param, click.Option))
        grouped = {name: group for group, names in GROUPS.items() for name in names}
        records = [(group_of(option, grouped), option.get_help_record(ctx)) for option in options]
        for group in (*GROUPS, "Other"):
            rows = [record for name, record in records if record and name == group]
            if rows:
                with formatter.section(group):
                    formatter.write_dl(rows)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the examples, which are not wrapped, and the page."""
        with formatter.section("Examples"):
            for example in self.examples:
                formatter.write(f"{'':>{formatter.current_indent}}ffn-export {example}\n")
        if self.page:
            formatter.write(f"\nMore: {self.page}\n")


def group_of(option: click.Option, grouped: Mapping[str, str]) -> str:
    """Return the group of an option; click's own --help is among the output, and so is every file of a report."""
    is_output = "--help" in option.opts or str(option.name).endswith("_path")
    return "Output" if is_output else grouped.get(str(option.name), "Other")
