"""Tests of feed-forwards whose rows are padded."""
