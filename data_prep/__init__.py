"""Text into rows: corpora, vocabularies, sentence pairs and masks. No model code."""
