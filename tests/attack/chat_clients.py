"""Chat clients as they are: each holds its own list of a conversation, and shows of it what its settings let through.

`Client` is the true history of one client; `View` is how it shows it: what it leaves out, merges, adds and formats.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass, field, replace
from random import Random

_TEXT = (
    "amber anchor apple arrow autumn badger basil beacon birch bramble bridge candle cedar chapel cherry cinder clover "
    "cobalt copper coral cradle crimson crow daisy dapple ember falcon fennel ferry fiddle flint forge garnet ginger "
    "granite hazel heron honey indigo ivory jasper juniper kettle lantern lavender lichen linen lobster magnet maple "
    "marble meadow mercury mirror mortar nettle nickel oat olive onyx orchard otter oyster paprika parchment pearl "
    "pebble pepper pewter pigeon plum poplar quarry quartz quill rabbit raven ribbon rosemary saddle saffron salmon "
    "scarlet silver slate sparrow spindle spruce sulphur tallow thistle thyme timber tulip turnip velvet vinegar "
    "violet walnut willow wren yarrow zinc"
)
WORDS = _TEXT.split()
COMMON = ("Go on.", "And then?", "We walk.", "I wait.")
COMMON_REPLIES = ("You nod.", "Silence.", "You wait.")


@dataclass(frozen=True)
class Item:
    """One message as a client holds it. `gain` is what the reply added to the state, `fact` the token that tells it apart."""

    role: str
    text: str
    fact: str = ""
    gain: int = 0
    picture: str = ""

    @property
    def is_user(self) -> bool:
        return self.role == "user"


@dataclass
class View:
    """How a client shows its history."""

    last: int = 0
    """Messages that are shown at most (0: all)."""
    pinned: int = 0
    """Messages of the beginning that are always shown."""
    merge: str = ""
    """SillyTavern's processing: '', 'semi', 'strict' or 'single'."""
    note_depth: int | None = None
    """How far from the end the author's note stands."""
    instruction: str = ""
    """What stands behind the newest message: '', 'user' or 'system'."""
    prefill: bool = False
    thinking: bool = False
    names: bool = False
    format: str = ""
    """Regular expressions over all messages: '', 'curly', 'markup', 'spaces'."""
    pictures: str = "all"
    """'all', 'newest', 'detail' or 'encoded'."""
    model: str = "m"

    def show(self, items: list[Item]) -> list[dict[str, object]]:
        """Return the messages of a call whose newest item is the user's newest message."""
        kept = items
        if self.last and len(items) > self.pinned + self.last:
            start = len(items) - self.last
            while not items[start].is_user and start < len(items) - 1:
                start += 1
            kept = [*items[: self.pinned], *items[max(start, self.pinned) :]]
        shown = [self._message(each, is_newest=each is items[-1]) for each in kept]
        if self.note_depth is not None:
            shown.insert(max(len(shown) - self.note_depth, 0), {"role": "system", "content": "[Style: short and dry.]"})
        if self.instruction:
            shown.append({"role": self.instruction, "content": "[Write the next reply in the third person.]"})
        shown.insert(0, {"role": "system", "content": "You are Mia, who keeps the light."})
        if self.merge:
            shown = _merge(shown, self.merge)
        if self.prefill:
            shown.append({"role": "assistant", "content": "Mia:"})
        return shown

    def _message(self, item: Item, *, is_newest: bool) -> dict[str, object]:
        text = item.text
        if self.format == "curly":
            text = text.replace('"', "”").replace("'", "’")
        elif self.format == "markup":
            text = f"<p>{text.replace('.', '.</p><p>')}</p>"
        elif self.format == "spaces":
            text = f" {text.replace(' ', '  ')}\n"
        if self.thinking and not item.is_user:
            text = f"<think>What would {item.fact or 'she'} say?</think>\n\n{text}"
        if self.names:
            text = f"{'Anna' if item.is_user else 'Mia'}: {text}"
        if not item.picture or (self.pictures == "newest" and not is_newest) or self.merge == "single":
            return {"role": item.role, "content": text}
        data = item.picture
        if self.pictures == "encoded" and not is_newest:
            data = base64.b64encode(b"again" + data.encode()).decode()
        url = {"url": f"data:image/png;base64,{data}", **({"detail": "low"} if self.pictures == "detail" else {})}
        return {"role": item.role, "content": [{"type": "text", "text": text}, {"type": "image_url", "image_url": url}]}


def _merge(shown: list[dict[str, object]], mode: str) -> list[dict[str, object]]:
    """Return messages as SillyTavern's strict modes send them: later system messages become the user's, neighbours are joined."""
    turned = []
    for at, each in enumerate(shown):
        role, content = str(each["role"]), each["content"]
        if at and role == "system":
            role = "user"
        if mode == "single":
            name = {"user": "Anna: ", "assistant": "Mia: "}.get(str(each["role"]), "")
            text = str(content)
            role, content = "user", text if text.startswith(name) else f"{name}{text}"
        turned.append({"role": role, "content": content})
    if mode == "strict" and turned[1:] and turned[1]["role"] != "user":
        turned.insert(1, {"role": "user", "content": "[Start a new chat]"})
    joined: list[dict[str, object]] = []
    for each in turned:
        if joined and joined[-1]["role"] == each["role"]:
            joined[-1] = {"role": each["role"], "content": _join(joined[-1]["content"], each["content"])}
        else:
            joined.append(each)
    return joined


def _join(first: object, second: object) -> object:
    if isinstance(first, str) and isinstance(second, str):
        return f"{first}\n\n{second}"
    parts = [[{"type": "text", "text": each}] if isinstance(each, str) else each for each in (first, second)]
    return [*parts[0], *parts[1]]


@dataclass
class Client:
    """A client with its history, and former histories to which it can go back."""

    items: list[Item] = field(default_factory=list)
    view: View = field(default_factory=View)
    former: list[list[Item]] = field(default_factory=list)

    @property
    def gain(self) -> int:
        """What all replies of the history added to the state."""
        return sum(item.gain for item in self.items)

    @property
    def facts(self) -> list[str]:
        """The tokens of the history, in order."""
        return [item.fact for item in self.items if item.fact]


class Author:
    """Writes texts: some of them have words that nothing else has, some are what everybody says."""

    def __init__(self, random: Random, number: int) -> None:
        self._random, self._number, self._count = random, number, 0

    def fact(self) -> str:
        """Return a token that no other text has."""
        self._count += 1
        return f"fact{self._number}x{self._count}x"

    def user(self, *, plain: bool = False) -> Item:
        """Return a message of the user."""
        if plain:
            return Item("user", self._random.choice(COMMON))
        fact, words = self.fact(), self._random.sample(WORDS, 3)
        picture = base64.b64encode(fact.encode()).decode() if self._random.random() < 0.15 else ""
        return Item(
            "user", f'I take the {words[0]} and the {words[1]} to the "{words[2]}", {fact}.', fact, picture=picture
        )

    def reply(self, *, plain: bool = False) -> Item:
        """Return a reply, which may change the state."""
        gain = self._random.choice((0, 0, 1, 10, 100))
        if plain:
            return Item("assistant", self._random.choice(COMMON_REPLIES), gain=gain)
        fact, words = self.fact(), self._random.sample(WORDS, 3)
        return Item(
            "assistant", f"*She nods.* The {words[0]} lies by the {words[1]} near a {words[2]}, {fact}.", fact, gain
        )

    def edited(self, item: Item) -> Item:
        """Return a message with another text in its place: a little or wholly changed."""
        if self._random.random() < 0.5 and item.fact:
            return replace(item, text=f"{item.text[:-1]}, as ever.")
        fact = self.fact()
        word = self._random.choice(WORDS)
        text = item.text.replace(item.fact, fact) if item.fact else f"{item.text[:-1]} with the {word}, {fact}."
        return replace(item, text=text, fact=fact)
