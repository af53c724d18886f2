"""Entry point of ``python -m ffn_export``, the same as ``ffn-export``."""

from __future__ import annotations

from ffn_export.cli.main import main

if __name__ == "__main__":
    main()
