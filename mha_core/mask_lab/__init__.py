"""Masks and numbers: built, converted, broadcast, aligned, filled and scaled, each really run."""
