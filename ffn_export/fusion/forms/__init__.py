"""Optional forms: forms that a target offers, used if the measured costs or the caller choose them."""

# Names of the forms in use.
Forms = frozenset[str]

# The form that writes attention as one node, which reports count.
ATTENTION_AS_ONE_NODE = "attention"
