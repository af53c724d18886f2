"""Optional forms: forms that a target offers, used if the measured costs or the caller choose them."""

# Names of the forms in use.
Forms = frozenset[str]

# Forms that write something else than sites as one node, which reports count: name -> what it writes.
ATTENTION, ROTARY = "attention", "rotary"
AS_ONE_NODE = {ATTENTION: "attention", ROTARY: "rotary positions"}
