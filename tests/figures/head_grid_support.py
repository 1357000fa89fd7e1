"""What the tests of the head grid share: weights, and readers of what is in a figure."""

from __future__ import annotations

import json

import numpy as np
import torch

from tests.core.support import randn
from tests.figures.support import array

BATCH, HEADS, TIME, TIME_K = 2, 3, 5, 7


def weights(*shape, seed=0, causal=False):
    scores = randn(*shape, seed=seed, dtype=torch.float32)
    if causal:
        later = torch.ones(shape[-2:], dtype=torch.bool).triu(1)
        scores = scores.masked_fill(later, -torch.inf)
    return scores.softmax(-1)


def parts(figure):
    """The figure as JSON: (a heatmap a head, those of masked cells, the layout)."""
    made = json.loads(figure.to_json())
    json.dumps(made, allow_nan=False)
    maps = [trace for trace in made["data"] if "masked" not in trace["hovertemplate"]]
    gone = [trace for trace in made["data"] if "masked" in trace["hovertemplate"]]
    return maps, gone, made["layout"]


def shown(figure):
    return np.stack([array(trace["z"]) for trace in parts(figure)[0]])


def axis(layout, trace, which):
    name = trace.get(f"{which}axis", which)
    return layout[f"{which}axis{name[1:]}"]


def words(layout):
    return [note["text"] for note in layout["annotations"]]
