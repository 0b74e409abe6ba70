"""Toys and tools that several test modules share."""
