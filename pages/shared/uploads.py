"""Files of the user's own: read once, kept in the session, refused without losing the last."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import streamlit as st

from mha_core.errors import ConfigError
from mha_core.layouts.listing import short
from pages.shared.choice import Choice, Given, Origin, Picture, Weights


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
    """The control; `read` raises a ConfigError where it refuses a file.

    A file that was read stays in use until another is, or it is taken back with its button: the
    control itself empties while a file is exchanged, and when another source is looked at.
    """
    # A control with another key is another one, and empty.
    times = st.session_state.get(f"taken_back_{kind}", 0)
    key = f"w_file_{kind}" + (f"_{times}" if times else "")

    def taken() -> None:
        file = st.session_state[key]
        if file is None:
            st.session_state[f"refused_{kind}"] = None
            return
        data = file.getvalue()
        try:
            content = read(data, file.name)
        except ConfigError as error:
            st.session_state[f"refused_{kind}"] = error
        else:
            digest = hashlib.sha256(data).hexdigest()
            _replace(kind, Upload(file.name, digest, content))

    st.file_uploader(label, types, key=key, on_change=taken)
    last = there(kind)
    if last is not None:
        st.button(
            f"Take back {plain(short(last.name, 40))}", key=f"w_back_{kind}",
            on_click=_take_back, args=(kind,), icon=":material/close:",
        )  # fmt: skip


def plain(text: str) -> str:
    """Names from a file where Markdown is read: shown as they are."""
    return re.sub(r"([^\w\s]|_)", r"\\\1", text)


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


def given(kind: str) -> bool:
    """Whether there is a file, be it a refused one."""
    return there(kind) is not None or st.session_state.get(f"refused_{kind}") is not None


def there(kind: str) -> Upload | None:
    """The last file that was read, if any."""
    found: Upload | None = st.session_state.get(f"upload_{kind}")
    return found


def kept(kind: str, digest: str) -> Upload | None:
    """The file with this digest: the last that was read, or one that is still in view."""
    last = there(kind)
    if last is not None and last.digest == digest:
        return last
    older: dict[str, Upload] = st.session_state.get(f"older_{kind}", {})
    return older.get(digest)


def _take_back(kind: str) -> None:
    _replace(kind, None)
    times = f"taken_back_{kind}"
    st.session_state[times] = st.session_state.get(times, 0) + 1


def _replace(kind: str, new: Upload | None) -> None:
    """The view in place, and a pinned one, keep their files until they give way themselves."""
    older: dict[str, Upload] = st.session_state.get(f"older_{kind}", {})
    last = there(kind)
    known = older if last is None else older | {last.digest: last}
    viewed = {_digest(st.session_state.get(view)) for view in ("good", "pinned")}
    st.session_state[f"older_{kind}"] = {
        digest: file for digest, file in known.items() if digest in viewed
    }
    st.session_state[f"upload_{kind}"] = new
    st.session_state[f"refused_{kind}"] = None


def _digest(view: Choice | Given | None) -> str | None:
    """Of the file that a view was made from."""
    match view:
        case Choice(origin=Weights(digest=digest) | Picture(digest=digest)):
            return digest
        case Given(source=(str(digest), _)):
            return digest
        case Choice(origin=Origin(picture=digest)) | Given(source=Origin(picture=digest)):
            return digest
    return None
