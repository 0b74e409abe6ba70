"""Data sets of tasks to records."""
