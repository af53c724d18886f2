"""Runtimes that run a model or a module, one file each, behind one small interface."""
