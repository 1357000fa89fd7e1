"""Plotly figures from plain data. A builder returns a figure and shows nothing."""
