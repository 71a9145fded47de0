"""Processes that work together: their start, environment, messages and doors."""
