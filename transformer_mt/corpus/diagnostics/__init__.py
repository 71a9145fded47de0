"""Faults of a source as a whole: swapped sides, shifted lines, mixed scripts."""
