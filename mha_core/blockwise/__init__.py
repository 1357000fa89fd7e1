"""Attention maps of any length, computed block by block from q and k."""

from mha_core.blockwise.detail import column, rows, window
from mha_core.blockwise.long_maps import LongMaps
from mha_core.blockwise.pictures import Overview, overview

__all__ = ["LongMaps", "Overview", "column", "overview", "rows", "window"]
