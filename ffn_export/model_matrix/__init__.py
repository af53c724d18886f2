"""Many models on many targets, precisions and runtimes, in processes or on a Ray cluster."""
