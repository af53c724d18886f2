"""Tests of feed-forwards by rows."""
