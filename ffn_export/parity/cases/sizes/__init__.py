"""Uses of sizes in a graph, and the sizes that it is verified at."""
