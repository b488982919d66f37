"""Inspecting tables and the machine, without running anything."""
