"""Weights to read, and the files that hold them, as NumPy and torch write them."""

from __future__ import annotations

import io

import numpy as np
import torch

from tests.core.support import BATCH, HEADS, TIME, TIME_K, randn

SHAPE = (BATCH, HEADS, TIME, TIME_K)


def maps(*shape, seed=0, dtype=torch.float32):
    return randn(*shape, seed=seed).softmax(-1).to(dtype)


def npy(array):
    out = io.BytesIO()
    np.save(out, array)
    return out.getvalue()


def npz(*arrays, **named):
    out = io.BytesIO()
    np.savez(out, *arrays, **named)
    return out.getvalue()


def pt(thing, **how):
    out = io.BytesIO()
    torch.save(thing, out, **how)
    return out.getvalue()
