"""Splits a text into word tokens, in the same way for queries and for all index engines.

This module must not import an engine, an embedder or numpy.
"""

from __future__ import annotations

import threading
from functools import lru_cache

import snowballstemmer

from mnemosyne.core.lazy_patterns import lazy_pattern
from mnemosyne.core.normal_forms import normal_form

_CJK = (
    "\u3005\u3007\u3041-\u3096\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7a3"
    "\uf900-\ufaff\U00020000-\U0003ffff"
)
_TOKEN = lazy_pattern(rf"[{_CJK}]+|[^\W_{_CJK}]+(?:'[a-z]+)?")
CJK_RUN = lazy_pattern(rf"[{_CJK}]+")
_FIRST_CJK = "\u3005"

_STOP_TEXT = """a about above after again against all am an and any are as at be because been before being below between both
    but by can could did do does doing done down during each few for from further had has have having he her here hers
    herself him himself his how i if in into is it its itself just let me more most my myself no nor not now of off on
    once only or other ought our ours ourselves out over own same shall she should so some such than that the their
    theirs them themselves then there these they this those through to too under until up upon us very was we were what
    when where which while who whom whose why will with would you your yours yourself yourselves im ive id ill youre
    youve hes shes theyre weve dont doesnt didnt isnt arent wasnt werent cant couldnt wont wouldnt shouldnt hasnt havent
    hadnt ain't i'm i've i'd i'll you're you've you'd you'll he's she's it's we're we've we'd we'll they're they've
    they'd they'll that's there's what's who's where's how's here's let's don't doesn't didn't isn't aren't wasn't
    weren't can't couldn't won't wouldn't shouldn't hasn't haven't hadn't mustn't needn't"""
STOP_WORDS = frozenset(_STOP_TEXT.split())

_stemmer = snowballstemmer.stemmer("english")
_stemming = threading.Lock()


@lru_cache(maxsize=1 << 17)
def _stem(word: str) -> str:
    # The stemmer (PyStemmer's, if it is installed) has internal state, and several threads tokenise: hence the lock.
    with _stemming:
        return str(_stemmer.stemWord(word))


@lru_cache(maxsize=1 << 17)
def _shared_word(word: str) -> str:
    """Return the same object for equal words, so that the sessions of a process share them."""
    return word


@lru_cache(maxsize=1 << 12)
def word_tokens_of_line(line: str) -> tuple[str, ...]:
    """Return the word tokens of a line. The result is cached, because a message's line is also in the index keys of
    its neighbours.
    """
    return tuple(word_tokens(line))


def word_tokens(text: str) -> list[str]:
    """Return the word tokens of `text`, in order, with repeats.

    The text is put in normal form NFKC and lower case. Words are stemmed (Snowball English), and English stop words
    are dropped. A run of CJK characters is split into overlapping pairs of characters. A single CJK character is one token. No
    token contains white space.
    """
    plain = normal_form("NFKC", text).lower().replace("\u2019", "'")
    found: list[str] = []
    for run in _TOKEN.findall(plain):
        if run[0] >= _FIRST_CJK and _is_cjk(run[0]):
            found.extend([run] if len(run) == 1 else [_shared_word(run[at : at + 2]) for at in range(len(run) - 1)])
        elif run not in STOP_WORDS:
            found.append(_stem(run) if run[0].isascii() else _shared_word(run))
    return found


def has_cjk(text: str) -> bool:
    """Return whether `text` contains a Chinese, Japanese or Korean character."""
    return CJK_RUN.search(text) is not None


@lru_cache(maxsize=1 << 14)
def _is_cjk(character: str) -> bool:
    return CJK_RUN.match(character) is not None
