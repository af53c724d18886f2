"""Where a model first differs from its reference: each node's own error, told from what it inherited.

1. ``align`` pairs values of the suspect with those of the reference: by name, or by numbers and wiring.
2. Both graphs are cut at every pair and given the reference's numbers there, so that what lies between two cuts,
   a node or a fused site, shows its own error alone (``own_errors``).
3. The first part over its budget is named, with what is different about it (``naming``, ``contrast``).
4. Where every part is right alone, the session options are tried (``whole_graph``).
5. ``reduce`` takes the smallest part that still fails out of the graph.
"""
