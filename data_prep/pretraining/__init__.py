"""Tokenized text to pretraining records."""
