"""An einops pattern as a tree in which every part knows its place in the text.

einops itself parses and runs the pattern (`plan.py`, `run.py`); this reading says where a mistake
lies, which einops does not. Grammar, as in einops 0.8:

    pattern := side "->" side
    side    := { axis | number | "..." | "(" { axis | number | "..." } ")" }
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterator
from dataclasses import dataclass

from mha_core.reshape.errors import ReshapeError
from mha_core.reshape.limits import MAX_DIGITS
from mha_core.reshape.scan import check_length

ELLIPSIS = "..."
ARROW = "->"
EXAMPLE = "A pattern is written as b t (h d) -> b h t d"
_TOKEN = re.compile(r"->|\.\.\.|…|[()]|[A-Za-z0-9_]+")


@dataclass(frozen=True)
class Axis:
    """One elementary axis: a name, a number, or the ellipsis."""

    name: str
    start: int
    end: int

    @property
    def literal(self) -> int | None:
        """The number, where it is one."""
        return int(self.name) if self.name.isdecimal() else None


@dataclass(frozen=True)
class Group:
    """One axis of the tensor: its elementary axes, outermost first."""

    axes: tuple[Axis, ...]
    start: int
    end: int
    bracketed: bool

    @property
    def is_ellipsis(self) -> bool:
        return not self.bracketed and self.axes[0].name == ELLIPSIS


@dataclass(frozen=True)
class Pattern:
    """Both sides of a pattern."""

    text: str
    left: tuple[Group, ...]
    right: tuple[Group, ...]

    @property
    def repeats(self) -> bool:
        """Whether the right side has axes that the left has not: einops.repeat makes them."""
        coming = {axis.name for axis in names(self.left)}
        return any(
            axis.name not in coming if axis.literal is None else axis.literal > 1
            for group in self.right
            for axis in group.axes
        )

    @property
    def for_einops(self) -> str:
        """As einops reads it: blanks are single spaces."""
        return " ".join(self.text.replace("…", ELLIPSIS).split())


def names(side: tuple[Group, ...]) -> Iterator[Axis]:
    """The named axes of a side, in order."""
    for group in side:
        for axis in group.axes:
            if axis.literal is None:
                yield axis


def parse_pattern(text: str) -> Pattern:
    """Reads a pattern.

    Raises:
        ReshapeError: with the place of the first mistake.
    """
    check_length("pattern", text)
    tokens = list(_tokens(text))
    arrows = [n for n, token in enumerate(tokens) if token.name == ARROW]
    if not arrows:
        raise ReshapeError(
            "pattern", text, len(text), len(text),
            "there is no -> between what comes in and what goes out" if tokens
            else "nothing is typed", works=EXAMPLE,
        )  # fmt: skip
    if len(arrows) > 1:
        second = tokens[arrows[1]]
        raise ReshapeError(
            "pattern", text, second.start, second.end, "a second -> stands here", works=EXAMPLE
        )
    left = _side(text, tokens[: arrows[0]])
    right = _side(text, tokens[arrows[0] + 1 :])
    _check_sides(text, left, right)
    return Pattern(text, left, right)


def _tokens(text: str) -> Iterator[Axis]:
    at = 0
    while at < len(text):
        if text[at].isspace():
            at += 1
            continue
        match = _TOKEN.match(text, at)
        if match is None:
            raise ReshapeError(
                "pattern", text, at, at + 1, _stray(text[at]),
                works="Names are made of the letters a to z, digits and _; " + EXAMPLE,
            )  # fmt: skip
        word = ELLIPSIS if match.group() == "…" else match.group()
        _check_word(text, word, at, match.end())
        yield Axis(word, at, match.end())
        at = match.end()


def _stray(character: str) -> str:
    shown = f"“{character}”" if character.isprintable() else f"U+{ord(character):04X}"
    what = {
        ".": "an ellipsis has three dots", "-": "an arrow is written ->",
        ">": "an arrow is written ->", ",": "axes are parted by spaces alone",
    }.get(character)  # fmt: skip
    return f"{shown} has no meaning here" + (f": {what}" if what else "")


def _check_word(text: str, word: str, start: int, end: int) -> None:
    """A name, or a number of at least 1, as einops takes it."""
    rule = ""
    if word.isdecimal():
        if len(word) > MAX_DIGITS:
            rule = f"a number of {len(word)} digits"
        elif int(word) < 1:
            rule = "an axis must have a size of at least 1"
    elif word[0] not in "(.-":
        if word[0].isdecimal():
            rule = f"a name cannot begin with a digit: {word[:20]}"
        elif word[0] == "_" or word[-1] == "_":
            rule = "einops takes no name that begins or ends with _"
        elif keyword.iskeyword(word):
            rule = f"{word} is a word of Python, which cannot name a size"
    if rule:
        raise ReshapeError("pattern", text, start, end, rule, works=EXAMPLE)


def _side(text: str, tokens: list[Axis]) -> tuple[Group, ...]:
    groups: list[Group] = []
    opened: Axis | None = None
    inside: list[Axis] = []
    for token in tokens:
        if token.name == "(":
            if opened is not None:
                raise ReshapeError(
                    "pattern", text, token.start, token.end,
                    "a bracket inside a bracket: einops composes axes on one level alone",
                    works="Leave the inner brackets out",
                    repairs=_without(text, token),
                )  # fmt: skip
            opened, inside = token, []
        elif token.name == ")":
            if opened is None:
                raise ReshapeError(
                    "pattern", text, token.start, token.end, "no bracket is open here",
                    works="Leave it out, or open one before", repairs=_without(text, token),
                )  # fmt: skip
            groups.append(Group(tuple(inside), opened.start, token.end, True))
            opened = None
        elif opened is not None:
            inside.append(token)
        else:
            groups.append(Group((token,), token.start, token.end, False))
    if opened is not None:
        end = inside[1].end if len(inside) > 1 else (inside[-1].end if inside else opened.end)
        raise ReshapeError(
            "pattern", text, opened.start, opened.end, "this bracket is not closed",
            works="Put ) after its last axis",
            repairs=[{"pattern": f"{text[:end]}){text[end:]}"}],
        )  # fmt: skip
    _check_once(text, groups)
    return tuple(groups)


def _without(text: str, token: Axis) -> list[dict[str, str]]:
    """The text less a bracket, and less the one that closes it, if that makes it whole."""
    rest = text[token.end :]
    if token.name == "(":
        rest = rest.replace(")", " ", 1)
    shorter = " ".join((text[: token.start] + " " + rest).split())
    shorter = shorter.replace("( ", "(").replace(" )", ")")
    return [{"pattern": shorter}] if shorter.count("(") == shorter.count(")") else []


def _check_once(text: str, groups: list[Group]) -> None:
    seen: set[str] = set()
    for axis in names(tuple(groups)):
        if axis.name in seen:
            what = (
                "a second ellipsis" if axis.name == ELLIPSIS else f"{axis.name} for the second time"
            )
            raise ReshapeError(
                "pattern", text, axis.start, axis.end,
                f"{what} on one side: each axis has a name of its own",
                works=f"Another name, such as {_free(axis.name, text)}"
                if axis.name != ELLIPSIS else "One ellipsis stands for all that is left",
            )  # fmt: skip
        seen.add(axis.name)


def _free(name: str, text: str) -> str:
    """A name like this one that is not in use."""
    used = set(re.findall(r"\w+", text))
    return next(found for n in range(2, 1000) if (found := f"{name}{n}") not in used)


def _check_sides(text: str, left: tuple[Group, ...], right: tuple[Group, ...]) -> None:
    """What is on the left must come out; what is new on the right is a repeat."""

    def fail(axis: Axis | Group, rule: str, works: str) -> ReshapeError:
        return ReshapeError("pattern", text, axis.start, axis.end, rule, works=works)

    going = {axis.name for axis in names(right)}
    for group in left:
        for axis in group.axes:
            if axis.name == ELLIPSIS and group.bracketed:
                raise fail(
                    axis, "on the left, an ellipsis cannot stand in brackets",
                    "Put it outside, or name its axes",
                )  # fmt: skip
            if axis.literal is not None and axis.literal > 1:
                raise fail(
                    axis, f"on the left, {axis.name} must be a name; its size follows from x",
                    "A name, or 1",
                )  # fmt: skip
            if axis.literal is None and axis.name not in going:
                raise fail(
                    axis, f"{axis.name} does not come out on the right: a reshape loses no axis",
                    f"Put {axis.name} on the right (einops.reduce would combine its elements)",
                )  # fmt: skip
    coming = {axis.name for axis in names(left)}
    for axis in names(right):
        if axis.name == ELLIPSIS and ELLIPSIS not in coming:
            raise fail(axis, "an ellipsis must stand on the left too", "Put ... on the left")
