"""What a model holds, and how two models differ, read off their graphs: nothing here runs a model."""
