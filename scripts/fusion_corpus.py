"""Fuse every architecture of the corpus, score the files, and compare with what was fused before."""

import sys

from corpus.command import main

if __name__ == "__main__":
    sys.exit(main())
