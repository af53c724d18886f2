"""The directory that ships: model, manifest, test vectors, reports."""
