"""Benchmarks and checks for people who work on this project."""
