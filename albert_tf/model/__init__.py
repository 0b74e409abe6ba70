"""The encoder, heads and models."""
