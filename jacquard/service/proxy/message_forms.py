"""Brings messages into a form in which a client's messages can be compared with stored ones. Pure.

Clients change messages: they trim spaces, replace marks of emphasis and quotation, drop thoughts, markup and old
pictures, and put the speaker's name before the text. A message that was changed in these ways still counts as the same.
A message that is stored with masked secrets counts as the same too.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import field, replace
from functools import cached_property, lru_cache
from typing import Any

from mnemosyne.chains.messages.exchanges import digest_of, loose_words, shown_text, without_name
from mnemosyne.chains.messages.message_parts import PARTS, is_text_part
from mnemosyne.privacy.forget import TEXT_CACHES
from mnemosyne.retrieval.text.words import word_tokens
from mnemosyne.schema.session import Message, Role
from mnemosyne.values import dataclass

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
"""Removed secret, in the form that `tight_text` gives it."""
_GRAM = re.compile(r"[^\W\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]+|[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
SHORT_CHARS, MOST_REMEMBERED, _MOST_LINES = 4_000, 32_768, 200
_NOT_COMPARED = ("cache_control", "detail", "index")
_THOUGHTS = ("thinking", "redacted_thinking", "reasoning")


@dataclass(frozen=True)
class MessageForm:
    """Message in the form for comparison."""

    role: Role
    text: str
    """Words of the message."""
    bare: str
    """Words of the message without the name of a speaker at the beginning."""
    parts: frozenset[str] = frozenset()
    """Digests of the content that is not text, such as pictures."""
    words: str = field(default="", compare=False)
    """Original text of the message. Two forms can be equal although their original texts differ."""

    @cached_property
    def lines(self) -> tuple[tuple[str, str], ...]:
        """(words with the name of a speaker, words without this name) of each line. Lines without words are left out."""
        lines = (line for line in shown_text(self.words).split("\n") if line.strip())
        return tuple((loose_words(line), loose_words(without_name(line))) for line in lines)

    @cached_property
    def grams(self) -> frozenset[str]:
        """Set of the words in the message. In languages without spaces, each character counts as a word."""
        return frozenset(_GRAM.findall(self.text))

    def is_same(self, other: MessageForm) -> bool:
        """Return whether this form and `other` are the same message. One of them may have a speaker's name, or lack
        some of the pictures.
        """
        return self.role is other.role and self.has_parts_of(other) and self.says_same(other)

    def has_parts_of(self, other: MessageForm) -> bool:
        """Return whether the parts that are not text agree with those of `other`: one of the two messages must have all
        parts of the other one.
        """
        return self.parts <= other.parts or other.parts <= self.parts

    def says_same(self, other: MessageForm) -> bool:
        """Return whether this form and `other` have the same words. A speaker's name, the order of lines, and masked
        secrets make no difference.
        """
        if self.text == other.text or self.bare == other.text or self.text == other.bare:
            return True
        if len(self.text) == len(other.text) and "\n" in self.words and sorted(self.lines) == sorted(other.lines):
            # A note is now after the words, and was before them.
            return True
        if _MASK not in self.words and _MASK not in other.words:
            return False
        mine, theirs = ((tight_text(each.words), tight_text(without_name(each.words))) for each in (self, other))
        pairs = (mine[0], theirs[0]), (mine[1], theirs[0]), (mine[0], theirs[1])
        return any(_is_alike(*pair) or _is_alike(*pair[::-1]) for pair in pairs)

    def find_lines(self, other: MessageForm, start: int = 0, stop: int | None = None) -> int | None:
        """Return the number of the line at which the lines of `other` begin in this message. Return None if this
        message does not contain all lines of `other` in a row.

        Only beginnings from the line `start` on and before the line `stop` (None: up to the end) are tried.
        """
        mine, theirs = self.lines, other.lines
        end = len(mine) - len(theirs) + 1
        for at in range(start, end if stop is None else min(stop, end)) if 0 < len(theirs) <= _MOST_LINES else ():
            pairs = zip(mine[at : at + len(theirs)], theirs, strict=True)
            if all(a == b or a[1] == b[0] or a[0] == b[1] for a, b in pairs):
                return at
        return None

    def contains(self, other: MessageForm) -> bool:
        """Return whether this message has all lines of `other` in a row, and more lines. Both must have the same role."""
        is_longer = self.role is other.role and len(self.lines) > len(other.lines)
        return is_longer and self.find_lines(other) is not None

    def likeness(self, other: MessageForm) -> float:
        """Return the likeness of this message and `other` by their words: 0 if they share no word, 1 if they have the
        same words.
        """
        mine, theirs = self.grams, other.grams
        return 2 * len(mine & theirs) / (len(mine) + len(theirs)) if mine or theirs else 1.0


def form_of(message: Message) -> MessageForm:
    """Return a message in the form for comparison."""
    told = message.extra.get(PARTS, ()) if message.extra else ()
    parts = [part for part in told if not is_text_part(part) and part.get("type") not in _THOUGHTS]
    digests = frozenset(digest_of([json.dumps(_plain_part(part), sort_keys=True)]) for part in parts)
    read = _form_of_text if len(message.content) <= SHORT_CHARS else _form_of_text.__wrapped__
    form = read(message.role, message.content)
    return replace(form, parts=digests) if digests else form


def informative_words(form: MessageForm) -> frozenset[str]:
    """Return the words of a message that occur in few conversations. Words of grammar, greetings, thanks and offers of help are
    left out.
    """
    return frozenset(word_tokens(form.words)) - _COMMON


@lru_cache(MOST_REMEMBERED)
def _form_of_text(role: Role, text: str) -> MessageForm:
    shown = shown_text(text)
    return MessageForm(role, loose_words(shown), loose_words(without_name(shown)), words=text)


TEXT_CACHES.append(_form_of_text.cache_clear)


def _is_alike(said: str, stored: str) -> bool:
    """Return whether a text equals the stored one, with any text at the places of removed secrets."""
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


def tight_text(text: str) -> str:
    """Return a text without white space, and without marks of emphasis and quotation."""
    return _IGNORED.sub("", text) or text.strip()


def _plain_part(part: Mapping[str, Any]) -> dict[str, Any]:
    """Return a part without fields that clients change from call to call: prompt caching, detail of a picture."""
    plain = {name: value for name, value in part.items() if name not in _NOT_COMPARED}
    return {name: _plain_part(value) if isinstance(value, Mapping) else value for name, value in plain.items()}
