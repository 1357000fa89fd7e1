"""Dtypes and devices: which are offered, which torch has here, and why not the others."""

from __future__ import annotations

from typing import Any

import torch

from mha_core.errors import ConfigError

DTYPES: dict[str, torch.dtype] = {
    "float32": torch.float32,
    "float64": torch.float64,
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
}
DEVICES = ("cpu", "cuda", "mps")


def check_dtype(value: Any) -> None:
    if not isinstance(value, str) or value not in DTYPES:
        raise ConfigError(
            "dtype",
            value,
            "is not a floating-point type offered here",
            works=f"These work: {', '.join(DTYPES)}",
            repairs=[{"dtype": "float32"}],
        )


def missing_device(name: str) -> str | None:
    """Why torch cannot run on device `name` here, or None where it can."""
    if name == "cpu":
        return None
    if name == "cuda":
        if not torch.backends.cuda.is_built():
            return "this torch was built without CUDA"
        return None if torch.cuda.is_available() else "torch finds no CUDA device"
    if name == "mps":
        if not torch.backends.mps.is_built():
            return "this torch was built without MPS"
        return None if torch.backends.mps.is_available() else "torch finds no MPS device"
    return "torch has no such device here"


def available_devices() -> list[str]:
    """The devices torch can run on now; always has "cpu"."""
    return [name for name in DEVICES if missing_device(name) is None]


def check_device(device: Any, dtype: str) -> None:
    reason = missing_device(device) if isinstance(device, str) else "must be the name of a device"
    has = available_devices()
    if reason is not None:
        raise ConfigError(
            "device",
            device,
            reason,
            works=f"torch here has: {', '.join(has)}",
            repairs=[{"device": name} for name in has],
        )
    if device == "mps" and dtype == "float64":
        raise ConfigError(
            "dtype",
            dtype,
            "MPS has no float64",
            works="Nearest that works: float32",
            repairs=[{"dtype": "float32"}, {"device": "cpu"}],
        )
