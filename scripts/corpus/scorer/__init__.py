"""Counts the sites of a graph that are complete in another one, from the two files alone.

It shares no code with ``ffn_export.fusion`` and does not read its report. What is expected is read from
the graph before fusion, in whatever spelling it is:

feed_forward   A product (MatMul, Gemm) with a constant matrix whose data input comes, by elementwise and
               layout operators only and with at least one that is not linear, from one other such product, or
               from two of one source (gated), and which gives back the width that the first ones read.
               Complete: at most one computing node between the products, two where it is gated.
norm           LayerNormalization or RMSNormalization over exactly the last axis, as one node or decomposed.
               Complete: one node, bias included. An epsilon that the exporter dropped (1e-8 and less) counts as 0.
residual_norm  An Add of two values that are not constant and have the same shape, which a norm reads directly or
               through Reshape, Squeeze, Unsqueeze, Identity or Cast. A sum read by two norms is one site.
               Complete: one node for the sum and the norm.

A computing node is any but those of ``reading.LAYOUT``; nodes on constants alone are none.

Sites are matched by their constants: a feed-forward by its second matrix, a norm by its scale, each up to
the order of its elements, so that a transposed or packed weight is the same. Equal ones (shared layers, norms
without scale) are counted.
"""

from corpus.scorer.score import KINDS, Expected, Score, expected_sites, score

__all__ = ["KINDS", "Expected", "Score", "expected_sites", "score"]
