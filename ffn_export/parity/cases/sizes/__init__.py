"""What sizes do in a graph, and the sizes that it is judged at."""
