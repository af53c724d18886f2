"""Load whole models from a local Hugging Face directory, by Optimum's conventions."""
