"""Fixtures of the block-wise maps."""

from tests.blockwise.support import small_blocks

__all__ = ["small_blocks"]
