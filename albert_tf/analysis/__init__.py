"""Costs of configurations, layer similarity, lowered steps."""
