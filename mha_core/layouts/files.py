"""Weights as bytes: safetensors and PyTorch files, read without running what they hold."""

from __future__ import annotations

import io
import re
from collections.abc import Mapping
from pathlib import PurePath
from typing import Any

import torch
from safetensors.torch import load, save
from torch import Tensor

from mha_core.errors import ConfigError, human_bytes
from mha_core.layouts import sniff
from mha_core.layouts.listing import listed, short

MAX_BYTES = 512 * 2**20

SUFFIXES = (".safetensors", ".pt", ".pth")
FORMS = ("safetensors", "pt")

# Under these a training script puts the weights, beside its optimiser and its counters.
WRAPPERS = ("state_dict", "model_state_dict", "model", "module")

SAVE = "Save the tensors alone: torch.save(model.state_dict(), path)"


def read_state(data: bytes, name: str) -> dict[str, Tensor]:
    """The tensors of a file by name, on the CPU. Nothing in the file is executed.

    What is nested under "state_dict", "model_state_dict", "model" or "module" is taken out of
    it; entries that are no tensors are left out.

    Args:
        data: the file, at most MAX_BYTES.
        name: of the file; its ending says how to read it.

    Raises:
        ConfigError: another ending, an empty, broken or too large file, one that holds Python
            objects, or no tensors. No other error leaves, whatever the bytes.
    """
    suffix = PurePath(name).suffix.lower()
    if suffix not in SUFFIXES:
        found = f"; the bytes are {sniff.kind(data)}" if data else ""
        raise _refusal(name, f"must end in one of {', '.join(SUFFIXES)}{found}", _others(data))
    if not data:
        raise _refusal(name, "is empty", "Expected: a file with tensors")
    _check_size(name, len(data), "has")
    what = sniff.kind(data)
    tensors = _read_safetensors if suffix == ".safetensors" else _read_torch
    state = tensors(data, name, what)
    for key, tensor in state.items():
        _check_tensor(key, tensor)
    return {key: tensor.detach() for key, tensor in state.items()}


def to_bytes(state: Mapping[str, Tensor], form: str) -> bytes:
    """The tensors as a file that `read_state` reads back bit for bit.

    Args:
        state: tensors by name, e.g. from `write`.
        form: "safetensors" or "pt".

    Raises:
        ConfigError: another form.
    """
    # safetensors refuses tensors that share memory or have gaps; a copy of each has neither.
    tensors = {key: tensor.detach().contiguous().clone() for key, tensor in state.items()}
    if form == "safetensors":
        data: bytes = save(tensors)
        return data
    if form == "pt":
        file = io.BytesIO()
        torch.save(tensors, file)
        return file.getvalue()
    raise ConfigError(
        "form",
        form,
        "is not offered",
        works=f"These work: {', '.join(FORMS)}",
        repairs=[{"form": known} for known in FORMS],
    )


def _refusal(name: str, rule: str, works: str) -> ConfigError:
    return ConfigError("file", short(name), rule, works=works)


def _others(data: bytes) -> str:
    if sniff.kind(data) in (sniff.TORCH, sniff.PICKLE):
        return "Nearest that works: the same file named .pt"
    return f"These work: {', '.join(SUFFIXES)}"


def _check_size(name: str, count: int, verb: str) -> None:
    if count > MAX_BYTES:
        raise _refusal(
            name,
            f"{verb} {human_bytes(count)}, over the limit of {human_bytes(MAX_BYTES)}",
            "Nearest that works: a file with the attention layers alone",
        )


def _read_safetensors(data: bytes, name: str, what: str) -> dict[str, Tensor]:
    if what != sniff.SAFETENSORS:
        works = "Nearest that works: the same file named .pt" if what == sniff.TORCH else ""
        raise _refusal(name, f"must be {sniff.SAFETENSORS}, as it is named; found {what}", works)
    try:
        state: dict[str, Tensor] = load(data)
    # The reader has an error of its own, and KeyError, TypeError and others besides.
    except Exception as error:
        raise _refusal(
            name,
            f"is {sniff.SAFETENSORS} that is broken, incomplete or of a newer kind "
            f"({_reason(error)})",
            "Expected: every byte from the header to the last tensor",
        ) from error
    if not state:
        raise _refusal(name, "holds no tensors", "Expected: tensors by name")
    return state


def _read_torch(data: bytes, name: str, what: str) -> dict[str, Tensor]:
    if what == sniff.TORCHSCRIPT:
        raise _refusal(
            name,
            f"is {what}, as torch.jit.save and C++'s torch::save write it",
            "Save its state_dict() instead: torch.jit.load(path).state_dict()",
        )
    if what not in (sniff.TORCH, sniff.PICKLE):
        same = what == sniff.SAFETENSORS
        works = "Nearest that works: the same file named .safetensors" if same else SAVE
        raise _refusal(name, f"must be {sniff.TORCH}, as it is named; found {what}", works)
    if what == sniff.TORCH:
        _check_size(name, sniff.unpacked_bytes(data), "unpacks to")
    try:
        loaded = torch.load(io.BytesIO(data), weights_only=True, map_location="cpu")
    # Bytes that are no pickle lead the unpickler anywhere: IndexError, struct.error, MemoryError.
    except Exception as error:
        # Its message advises to load without the guard; only what it refused is passed on.
        foreign = re.search(r"GLOBAL ([\w.]+)", str(error))
        if foreign:
            rule = f"holds Python objects besides tensors ({short(foreign[1])}); none is run"
        else:
            rule = f"is {what} that is broken or incomplete ({type(error).__name__})"
        raise _refusal(name, rule, SAVE) from error
    return _tensors(loaded, name)


def _reason(error: Exception) -> str:
    return " ".join(str(error).split())[:100] or type(error).__name__


def _tensors(loaded: Any, name: str) -> dict[str, Tensor]:
    """The entries that are tensors, of the innermost dictionary of weights."""
    if not isinstance(loaded, dict):
        raise _refusal(name, f"holds a {type(loaded).__name__}, not tensors by name", SAVE)
    # A bound, since a dictionary in a pickle may hold itself.
    for _ in WRAPPERS:
        inner = [loaded[key] for key in WRAPPERS if isinstance(loaded.get(key), dict)]
        if not inner:
            break
        loaded = inner[0]
    state = {
        key: value
        for key, value in loaded.items()
        if isinstance(key, str) and isinstance(value, Tensor)
    }
    if not state:
        kinds = (
            f"{short(key) if isinstance(key, str) else type(key).__name__} ({type(value).__name__})"
            for key, value in loaded.items()
        )
        found = listed(kinds, len(loaded)) or "an empty dictionary"
        raise _refusal(name, f"holds no tensors by name; found {found}", SAVE)
    return state


def _check_tensor(name: str, tensor: Tensor) -> None:
    """Refuses tensors that are not plain numbers in memory, or pretend to more than the limit."""
    if not name.isprintable():
        raise ConfigError("file", ascii(name)[:80], "must name its tensors in printable characters")
    kind = ""
    if type(tensor) not in (Tensor, torch.nn.Parameter):
        kind = type(tensor).__name__
    elif tensor.is_nested:
        kind = "nested"
    elif tensor.layout is not torch.strided:
        kind = str(tensor.layout).removeprefix("torch.")
    elif tensor.is_quantized:
        kind = "quantized"
    elif tensor.device.type != "cpu":
        kind = f"on device {tensor.device.type}, without numbers"
    if kind:
        raise ConfigError(
            short(name), kind, "must be a dense tensor", works="Nearest that works: its to_dense()"
        )
    # A view may repeat one number along an axis, and a few bytes look like gigabytes.
    count = tensor.numel() * tensor.element_size()
    if count > MAX_BYTES:
        raise ConfigError(
            short(name),
            tuple(tensor.shape),
            f"is {human_bytes(count)}, over the limit of {human_bytes(MAX_BYTES)}",
            works="Nearest that works: a smaller tensor",
        )
