"""Plotly figures from plain data. A builder returns a figure and shows nothing."""

from mha_core.figures.head_grid import head_grid

__all__ = ["head_grid"]
