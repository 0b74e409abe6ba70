"""Parts of quickstart.sh."""
