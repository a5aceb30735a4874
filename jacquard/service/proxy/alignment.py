"""Which of a session's stored messages the messages of a client are. Pure, about linear in their number.

Clients change what they got: they trim spaces, correct marks of emphasis and quotation, and put the speaker's name before the
text. Such a message is still the same, and so is one that is stored without its secrets.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from mnemosyne.chains.messages.message_parts import PARTS, is_text_part
from mnemosyne.retrieval.text.words import word_tokens
from mnemosyne.schema.session import Message, Role

MOST_STARTS = 20
"""Of how many places where the client's messages may begin the agreement is counted: words such as "go on" are said often."""
MOST_SKIPPED = 4
"""How many of the client's oldest messages may be unknown before the first known one."""

_COMMON_TEXT = """hello hi hey there good morning evening afternoon night day bye goodbye welcome thank thanks please sorry yes yeah
    yep okay ok sure fine right great nice cool well help assist assistance today need want like know think tell say said ask talk
    chat question answer anything something everything else go come going continue got see understand understood course happy glad
    feel free let ready ai assistant model language chatbot name start begin try again way thing time look give make made get use
    new one next last really actually maybe oh ah um hmm test testing hola buenos buenas dias días tardes noches gracias ayudar
    ayudarte puedo hoy qué que por favor salut bonjour bonsoir merci aider comment puis je vous hallo guten tag morgen danke helfen
    kann ihnen dir heute wie bitte ciao buongiorno grazie aiutarti posso oggi olá oi obrigado ajudar hoje como
    привет здравствуйте спасибо помочь могу чем
    你好 您好 早上好 下午好 晚上好 谢谢您 感谢您 再见 有什么可以帮您 有什么可以帮你 有什么可以帮助您的吗 可以帮助你
    帮忙的吗 请问有什么 我能帮您什么 好的 是的
    没问题 嗯嗯 哈哈 请继续 不客气 欢迎您 今天 需要我做什么 为您服务 很高兴为您 我是人工智能助手 语言模型 知道 我不知道 告诉我"""
_COMMON = frozenset(word for text in _COMMON_TEXT.split() for word in (text, *word_tokens(text)))

_IGNORED = re.compile(r"[\s*_~`\"'“”‘’„«»「」『』]+")
_MASK = "[redacted:"
_MASKED = re.compile(r"\[redacted:[a-z]{1,40}\]")
"""A secret that was removed, in the form that `_key` gives it."""
_NAME = re.compile(r"\A[^\n:：]{1,60}[:：]\s*(?=\S)")


@dataclass(frozen=True, slots=True)
class MessageForm:
    """Parts of a message that have to agree. `bare` is its text without what may be the name of a speaker, `words` the original."""

    role: Role
    text: str
    bare: str
    parts: str = ""
    words: str = field(default="", compare=False)

    def is_same(self, other: MessageForm) -> bool:
        """Return whether both are one message, of which one may begin with the speaker's name."""
        if self.role is not other.role or self.parts != other.parts:
            return False
        pairs = (self.text, other.text), (self.bare, other.text), (self.text, other.bare)
        return any(_is_alike(*pair) or _is_alike(*pair[::-1]) for pair in pairs)


def form_of(message: Message) -> MessageForm:
    """Return the form of a message; of parts that are no text it has a digest."""
    parts = [_plain_part(part) for part in message.extra.get(PARTS, ()) if not is_text_part(part)]
    digest = _digest(json.dumps(parts, sort_keys=True)) if parts else ""
    bare = _key(_NAME.sub("", message.content, count=1))
    return MessageForm(message.role, _key(message.content), bare, digest, message.content)


def informative_words(forms: Iterable[MessageForm]) -> frozenset[str]:
    """Return the words of messages that few conversations have: without words of grammar, greetings, thanks and offers of help."""
    return frozenset(word for form in forms for word in word_tokens(form.words) if word not in _COMMON)


def exchanges_of(forms: Sequence[MessageForm]) -> Iterator[str]:
    """Yield a digest of each message of the user with its reply, newest first."""
    for said, reply in zip(forms[-2::-1], forms[:0:-1], strict=True):
        if said.role is Role.USER and reply.role is Role.ASSISTANT:
            yield _digest(f"{said.bare}\0{said.parts}\0{reply.bare}")


def align(shown: Sequence[MessageForm], stored: Sequence[MessageForm]) -> tuple[int, int]:
    """Return where the client's messages begin among the stored ones, and how many of them agree from there.

    (0, 0): none is known. Of several places the one with the longest agreement is taken, of these the newest. Looked at are those
    nearest to where the client's messages begin if both end alike.
    """
    alike = len(stored) - len(shown)
    for skipped, first in enumerate(shown[: MOST_SKIPPED + 1]):
        starts = [at for at, each in enumerate(stored) if at >= skipped and first.is_same(each)]
        if starts and skipped:
            return starts[-1] - skipped, 0
        if starts:
            nearest = sorted(starts, key=lambda start: abs(start - alike))[:MOST_STARTS]
            best = max(nearest, key=lambda start: (count_agreeing(shown, stored[start:]), start))
            return best, count_agreeing(shown, stored[best:])
    return 0, 0


def count_agreeing(shown: Sequence[MessageForm], stored: Sequence[MessageForm]) -> int:
    """Return how many messages agree from the first ones on."""
    pairs = zip(shown, stored, strict=False)
    return next(
        (at for at, (mine, theirs) in enumerate(pairs) if not mine.is_same(theirs)), min(len(shown), len(stored))
    )


def _is_alike(said: str, stored: str) -> bool:
    """Return whether a text is the stored one, with something in each place from which a secret was removed."""
    if said == stored or _MASK not in stored:
        return said == stored
    first, *others = _MASKED.split(stored)
    if not others or not said.startswith(first):
        return False
    place = len(first)
    for piece in others[:-1]:
        place = said.find(piece, place + 1)
        if place < 0:
            return False
        place += len(piece)
    return len(said) - len(others[-1]) > place and said.endswith(others[-1])


def _key(text: str) -> str:
    return _IGNORED.sub("", text) or text.strip()


def _plain_part(part: Mapping[str, Any]) -> dict[str, Any]:
    # Where a prompt is cached says nothing of its content, and moves from call to call.
    return {name: value for name, value in part.items() if name != "cache_control"}


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]
