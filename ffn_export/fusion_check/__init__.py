"""Run a model and its fused graph on drawn inputs, and undo rewrites whose results differ."""
