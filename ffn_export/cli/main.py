"""``ffn-export``: finds the command, and turns errors into one line and an exit status.

Exit status: 0 success; 1 a quality gate failed; 2 bad usage or bad input; 3 a runtime requested by name is not
available; 130 interrupted.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import click

from ffn_export.cli import interruption, supervised
from ffn_export.cli.help import Context
from ffn_export.cli.state import State
from ffn_export.core.strict import expose
from ffn_export.errors import FfnExportError, UsageError, for_the_shell, needing
from ffn_export.reports.streams import guard_libraries, say, say_traceback

# Command -> module that defines it, in the order of the help.
COMMANDS = {
    "list": "list_presets",
    "build": "build",
    "export": "export",
    "fuse": "fuse",
    "quantize": "quantize",
    "inspect": "inspect",
    "verify": "verify",
    "bench": "bench",
    "tune": "tune",
    "matrix": "matrix",
    "join": "join",
    "diff": "diff",
    "doctor": "doctor",
}
# Commands that may read untrusted files.
SUPERVISED = ("fuse", "inspect", "verify", "diff", "quantize", "bench", "tune")
INTERRUPTED = 130


class Commands(click.Group):
    """Command group that imports a command when it is used."""

    context_class = Context

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return all names, in the order of the help."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command."""
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = importlib.import_module(f"ffn_export.cli.{COMMANDS[cmd_name]}").command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Reject an unknown command, with a suggestion."""
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            from ffn_export.cli import unknown

            hint = unknown.of_command(args[0], self, ctx)
            raise click.UsageError(f"no such command: {args[0]!r};{hint} commands are {', '.join(COMMANDS)}")
        return super().resolve_command(ctx, args)


@click.command(cls=Commands, no_args_is_help=True, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="ffn-export", prog_name="ffn-export")
def commands() -> None:
    """Export PyTorch feed-forward and LayerNorm modules to ONNX, fuse them, and verify the result.

    Start with `ffn-export build bert-ffn`, which does all of it; the other commands are its steps.
    """


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit with its status."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed, as in a daemon
            setattr(sys, name, open(os.devnull, "w"))  # noqa: PTH123, SIM115 - for as long as the process lives
    words = list(sys.argv[1:] if arguments is None else arguments)
    is_supervised = words[:1] != [] and words[0] in SUPERVISED and supervised.is_possible()
    if is_supervised:
        ended = supervised.wait_for_command()
        if ended is not None:
            if ended < 0:
                say(f"ffn-export: {supervised.words(-ended)}")
                sys.exit(INTERRUPTED if supervised.was_told(-ended) else 2)
            sys.exit(ended)
    guard_libraries()
    interruption.end_as_by_ctrl_c()
    status = run(words, is_supervised=is_supervised)
    interruption.ignore()
    sys.exit(status)


def run(arguments: list[str], *, is_supervised: bool = False) -> int:
    """Run the command line and return its exit status."""
    state = State(supervised=is_supervised, arguments=tuple(arguments))
    try:
        with for_the_shell(), _ended_by_the_model(), needing(" ".join(["ffn-export", *arguments[:1]])):
            status = commands.main(arguments, prog_name="ffn-export", standalone_mode=False, obj=state)
    except click.exceptions.NoArgsIsHelpError as error:
        for line in error.format_message().splitlines():
            say(line)
        return 2
    except click.ClickException as error:
        return _fail(state, error, _of_click(error), 2)
    except FfnExportError as error:
        return _fail(state, error, str(error), error.exit_status)
    except (KeyboardInterrupt, click.Abort) as error:
        return _fail(state, error, "interrupted; what was there before is unchanged", INTERRUPTED)
    except BrokenPipeError:
        # The reader of the pipe has exited (`ffn-export list | head`), which is no error.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (OSError, MemoryError) as error:
        return _fail(state, error, _of_the_system(error), 2)
    except Exception as error:  # noqa: BLE001 - a bug of this package: one line for the user, a traceback with --debug
        expose(error)
        return _fail(state, error, f"unexpected {type(error).__name__}: {error}; --debug shows where", 2)
    return int(status or 0)


@contextmanager
def _ended_by_the_model() -> Iterator[None]:
    """Turn an exit that only code of the user can have asked for into an error: its status is not a verdict."""
    try:
        yield
    except SystemExit as error:
        raise UsageError(f"the code of the model ended the program with {error.code!r}: remove its exit") from error


def _of_click(error: click.ClickException) -> str:
    """Return the message; with the arguments of the command if one is missing or too many; or who has an option."""
    message, context = error.format_message(), getattr(error, "ctx", None)
    if isinstance(error, click.NoSuchOption) and context is not None:
        from ffn_export.cli import unknown

        elsewhere = unknown.of_option(error.option_name, context)
        return f"no such option: {error.option_name}; {elsewhere}" if elsewhere else message
    is_missing = isinstance(error, click.MissingParameter) and isinstance(error.param, click.Argument)
    if context is None or not (is_missing or type(error) is click.UsageError):
        return message
    return f"{message.rstrip('.')}: write {context.get_usage().partition(' ')[2]}"


def _of_the_system(error: OSError | MemoryError) -> str:
    """Return the message of an operating-system error that no other handler covers, such as a name that is too long."""
    if isinstance(error, MemoryError):
        return f"there is not the memory for this: {str(error) or 'ask for less at once'}"
    where = "" if error.filename is None else f"{error.filename}: "
    return f"{where}{error.strerror or error}"


def _fail(state: State, error: BaseException, message: str, status: int) -> int:
    if state.debug:
        say_traceback(error)
    say(f"ffn-export: {' '.join(message.split())}")
    return status


if __name__ == "__main__":
    main()
