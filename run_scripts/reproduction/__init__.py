"""Parts of reproduce.py."""
