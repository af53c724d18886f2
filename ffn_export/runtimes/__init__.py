"""What can run a model, one file each, behind one small interface."""
