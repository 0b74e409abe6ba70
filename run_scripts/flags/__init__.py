"""Flags of the scripts, in groups."""
