"""Find where a model first differs from its reference, separating each node's own error from its inherited error.

1. ``align`` pairs values of the suspect with values of the reference: by name, or by numbers and wiring.
2. Both graphs are cut at every pair and fed the reference's numbers there. The part between two cuts, a node or a fused
   site, then shows only its own error (``own_errors``).
3. The first part over its bound is reported, with its differences from the reference (``naming``, ``contrast``).
4. If every part is right alone, the session options are tried (``whole_graph``).
5. ``reduce`` extracts the smallest part that still fails.
"""
