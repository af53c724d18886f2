"""What an unknown command or option stands for: an option of another command, or a function of the Python package."""

from __future__ import annotations

from collections.abc import Collection

import click

from ffn_export.errors import did_you_mean

# Words of other tools, which are no near misses of ours by their letters.
_SYNONYMS = {
    "convert": "export",
    "optimize": "fuse",
    "optimise": "fuse",
    "simplify": "fuse",
    "info": "inspect",
    "show": "inspect",
    "explain": "inspect",
    "check": "verify",
    "test": "verify",
    "validate": "verify",
    "compare": "diff",
    "benchmark": "bench",
    "time": "bench",
    "presets": "list",
    "ls": "list",
    "merge": "join",
    "run": "load",
}
# An option that more commands have is no hint at one of them.
_FEW = 3


def of_command(word: str, group: click.Group, context: click.Context) -> str:
    """Return what an unknown command stands for, as words after a message: a hint, or an empty string."""
    import ffn_export as fx

    commands = group.list_commands(context)
    meant = _SYNONYMS.get(word.lower(), word.lower())
    if meant in commands:
        return f" did you mean {meant!r}?"
    owners = _owners(f"--{meant}", group, context)
    if owners and len(owners) <= _FEW:
        return f" did you mean {' or '.join(f'`{owner} --{meant}`' for owner in owners)}?"
    if meant in dir(fx):
        return f" {meant!r} is a function of Python, ffn_export.{meant};"
    return did_you_mean(word, commands)


def of_option(option: str, context: click.Context) -> str:
    """Return which other commands have an option, as words after a message, or an empty string."""
    root = context.find_root()
    if not isinstance(root.command, click.Group):
        return ""
    owners = [name.rpartition(" ")[2] for name in _owners(option, root.command, root)]
    if not owners or len(owners) > _FEW:
        return ""
    return f"{' and '.join(owners)} {'has' if len(owners) == 1 else 'have'} it"


def _owners(option: str, group: click.Group, context: click.Context) -> Collection[str]:
    """Return the commands that have an option, with the name of the program in front; first the program itself."""
    program = context.info_name or ""
    found = [program] if any(option in each.opts for each in group.get_params(context)) else []
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if command is not None and any(option in each.opts for each in command.params):
            found.append(f"{program} {name}")
    return found
