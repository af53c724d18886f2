"""Entry point of ``ffn-export`` and ``python -m ffn_export``."""

from __future__ import annotations

import sys

from ffn_export.errors import MissingPackageError, needing


def main() -> None:
    """Run the command line and exit with its status; where a package is missing for it, say so in one line."""
    try:
        with needing("ffn-export"):
            from ffn_export.cli.main import main as run
    except MissingPackageError as error:
        print(f"ffn-export: {error}", file=sys.stderr)
        sys.exit(error.exit_status)
    run()


if __name__ == "__main__":
    main()
