"""Padded widths: feed-forward rows a multiple of 4096 bytes apart are made longer by a cache line."""
