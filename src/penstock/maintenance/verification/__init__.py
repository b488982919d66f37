"""Loaded tables compared with their sources. Changes nothing."""
