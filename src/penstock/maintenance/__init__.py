"""Keeping tables small and clean, and proving what is gone."""
