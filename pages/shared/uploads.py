"""Files of the user's own: read once, kept in the session, refused without losing the last."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import streamlit as st

from mha_core.errors import ConfigError


class Waiting(ConfigError):
    """Nothing is wrong: a file or an answer is still to come."""


@dataclass(frozen=True)
class Upload:
    """A file that was read.

    Attributes:
        name: of the file.
        digest: of its bytes.
        content: what reading it gave.
    """

    name: str
    digest: str
    content: Any


def uploader(kind: str, label: str, types: list[str], read: Callable[[bytes, str], Any]) -> None:
    """The control; `read` raises a ConfigError where it refuses a file."""
    key = f"w_file_{kind}"

    def taken() -> None:
        file = st.session_state[key]
        if file is None:
            return
        data = file.getvalue()
        try:
            content = read(data, file.name)
        except ConfigError as error:
            st.session_state[f"refused_{kind}"] = error
        else:
            digest = hashlib.sha256(data).hexdigest()
            st.session_state[f"upload_{kind}"] = Upload(file.name, digest, content)
            st.session_state[f"refused_{kind}"] = None

    st.file_uploader(label, types, key=key, on_change=taken)


def uploaded(kind: str, *, missing: str) -> Upload:
    """The last file that was read.

    Raises:
        ConfigError: the last one given was refused.
        Waiting: none was given yet; `missing` says what is expected.
    """
    refused: ConfigError | None = st.session_state.get(f"refused_{kind}")
    if refused is not None:
        raise refused
    found = there(kind)
    if found is None:
        raise Waiting("file", "none yet", missing)
    return found


def there(kind: str) -> Upload | None:
    """The last file that was read, if any."""
    found: Upload | None = st.session_state.get(f"upload_{kind}")
    return found
