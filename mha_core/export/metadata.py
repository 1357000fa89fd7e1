"""What a file says about itself: the configuration, and which tensors are in it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import IO, Any

import torch

from mha_core.config import MHAConfig
from mha_core.export.selection import MAPS, Job, Selection

# The words of this package, one a concept, as every table, page and file uses them.
WORDS: dict[str, str] = {
    "batch": "sequences processed together",
    "time": "positions in each sequence",
    "d_model": "width of the input and of the output",
    "heads": "number of heads, h in shapes; divides d_model",
    "d_k": "width of one head: d_model / heads",
    "scores": "Q Kᵀ, one number for each query and key of each head",
    "scaled": "scores / √d_k",
    "masked": "scaled scores with what may not be attended at fill",
    "weights": "softmax of the masked or scaled scores over the keys",
}

# Of a map over (query, key), as files name them.
MAP_AXES = ("batch", "heads", "time (query)", "time (key)")


def tensor_key(name: str) -> str:
    """Name of a tensor inside a file: "after_dropout"."""
    return name.replace(" ", "_")


def describe(job: Job, *, stored: dict[str, str] | None = None) -> dict[str, Any]:
    """Configuration, tokens, selection and tensors, as JSON can hold them.

    Args:
        stored: dtype in the file where it is not the tensor's own, by tensor name.
    """
    return document(
        job.config,
        heads=job.heads,
        items=job.items,
        tokens=job.tokens,
        tensors={
            tensor_key(name): {
                "step": step,
                "axes": _axes(job, name, step),
                "dtype": job.config.dtype,
                "stored": (stored or {}).get(name, job.config.dtype),
            }
            for name, step in job.tensors.items()
        },
    )


def document(
    config: MHAConfig,
    *,
    heads: Sequence[int],
    items: Sequence[int],
    tokens: Sequence[str] | None,
    tensors: dict[str, dict[str, Any]],
) -> dict[str, Any]:
    """The same for whatever wrote the tensors.

    Args:
        config: of the run.
        heads, items: indices of what is in the tensors.
        tokens: one a position.
        tensors: step, axes and dtypes by name inside the file.
    """
    return {
        "config": config.to_dict(),
        "torch": str(torch.__version__),
        "package": "mha_core",
        "heads": list(heads),
        "items": list(items),
        "tokens": None if tokens is None else list(tokens),
        "tensors": tensors,
    }


def _axes(job: Job, name: str, step: str) -> list[str]:
    if name in MAPS:
        return list(MAP_AXES)
    shape = job.trace[step].shape
    return ["batch", "heads", "time", "d_k"] if len(shape) == 4 else ["batch", "time", "d_model"]


def write_config(file: IO[bytes], job: Job) -> None:
    """The configuration as JSON: `MHAConfig.from_dict(document["config"])` is it again."""
    document = describe(job) | {"d_k": job.config.d_k, "words": WORDS}
    del document["tensors"], document["heads"], document["items"]
    # Escaped, since a token may hold half a surrogate pair, which UTF-8 cannot.
    text = json.dumps(document, indent=2, allow_nan=False)
    file.write(f"{text}\n".encode())
    job.report(1.0, "configuration")


def file_name(
    config: MHAConfig, stem: str, suffix: str, *, tokens: Sequence[str] | None = None
) -> str:
    """A name that carries the configuration: attention_b2_t6_d32_h4_causal_seed0_weights.npz.

    What is at its default is left out, sizes and seed apart. Different texts differ in name.
    """
    parts = [f"b{config.batch}", f"t{config.time}", f"d{config.d_model}", f"h{config.heads}"]
    parts += ["causal"] if config.causal else []
    parts += [f"dropout{config.dropout:g}"] if config.dropout > 0.0 else []
    parts += [] if config.bias else ["nobias"]
    parts += [f"scale{config.scale:g}"] if config.scale is not None else []
    parts += [f"fill{config.fill:g}"] if config.to_dict()["fill"] != "-inf" else []
    parts += [config.dtype] if config.dtype != "float32" else []
    parts += [f"seed{config.seed}"]
    if tokens is not None:
        text = json.dumps(list(tokens)).encode()
        parts.append(f"text{hashlib.sha256(text).hexdigest()[:6]}")
    return f"{'_'.join(['attention', *parts, stem])}.{suffix}"


def stem(selection: Selection) -> str:
    """The selection in a file name: weights, scores-weights_heads0-3_item1."""
    parts = ["-".join(tensor_key(name) for name in selection.names)]
    for word, indices in (("head", selection.heads), ("item", selection.items)):
        if indices is not None:
            listed = "-".join(str(index) for index in indices)
            # Names beyond 255 bytes do not exist: a long list is counted instead.
            listed = listed if len(indices) <= 8 else f"{indices[0]}and{len(indices) - 1}more"
            parts.append(f"{word}{'s' if len(indices) > 1 else ''}{listed}")
    return "_".join(parts)
