"""Decisions made visible."""
