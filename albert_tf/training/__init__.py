"""Runs: loops, optimizer, devices, checkpoints of a run, evaluation."""
