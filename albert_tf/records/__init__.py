"""Record files: features, sidecars, writing, reading, batches."""
