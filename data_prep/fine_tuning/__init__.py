"""Reads the data of fine-tuning tasks and converts it to rows."""
