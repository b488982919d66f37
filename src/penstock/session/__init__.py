"""Spark sessions: Java, jars, settings, starting and stopping."""
