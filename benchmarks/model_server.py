"""A model server whose mode of answering is changed while it runs: the other side of the deadline benchmark.

It runs in a process of its own, so that it takes no time from the event loop that is measured. A line on its standard input
sets the mode; a line on standard output confirms it. Every request is written to its log as it comes in.

A line `choose ["id", …]` makes it an oracle: from then on it chooses these, as far as they are shown to it.

    instant    an answer at once
    quick      an answer within 200 ms
    random     an answer after 0 to 5 s
    hang       no answer
    refuse     HTTP 401, 429, 500, or the connection dropped
    rubbish    an answer without a choice in it, or no JSON at all
    choose     the ids that were set by `choose`, after 0.4 s
"""

from __future__ import annotations

import argparse
import json
import math
import re
import sys
import time
from random import Random
from typing import TextIO

from jacquard.testing.server import ScriptedRequest, ScriptedServer, Step

DELAYS = {"instant": 0.0, "quick": 0.2, "random": 5.0}
"""The longest delay of the modes that answer, in seconds."""
CHOOSE_SECONDS = 0.4
CHOOSE = "choose"
MOODS = ("instant", "quick", "random", "hang", "refuse", "rubbish")
_ITEM = re.compile(r'<item id="([^"]*)"')
_WIDE = re.compile("[\u3000-\u9fff]")
_RATIONALE = "They tell what the player asks about and what was said of it before."
_RUBBISH = (
    "I would rather talk about the weather.",
    '["nobody", "nothing"]',
    '{"selected": "',
    "<html>It works!</html>",
)


class FaultyModel:
    """Answers in the way that the present mode says; `seed` fixes delays and faults in the order of requests."""

    def __init__(self, mood: str, seed: int, log: TextIO) -> None:
        self.mood = mood
        self.wanted: tuple[str, ...] = ()
        self._random = Random(seed)
        self._log = log

    def answer(self, request: ScriptedRequest) -> Step:
        """Write a request to the log and return its answer."""
        prompt, mood, random = request.text, self.mood, self._random
        said = {"at": time.time(), "mood": mood, "chars": len(prompt), "tokens": _tokens(prompt)}
        self._log.write(json.dumps(said) + "\n")
        self._log.flush()
        items = _ITEM.findall(prompt)
        if mood == "hang":
            return Step(seconds=math.inf)
        if mood in DELAYS:
            chosen: object = items[:3]
            if '"rationale"' in prompt:
                chosen = {"ids": chosen, "rationale": _RATIONALE}
            return Step(text=json.dumps(chosen), seconds=random.uniform(0.0, DELAYS[mood]))
        if mood == CHOOSE:
            shown = set(items)
            return Step(text=json.dumps([each for each in self.wanted if each in shown][:5]), seconds=CHOOSE_SECONDS)
        if mood == "refuse":
            status = random.choice((401, 429, 500, 0))
            return Step(status=status, error="refused") if status else Step(is_dropped=True)
        text = random.choice(_RUBBISH)
        return Step(page=text) if text.startswith("<html>") else Step(text=text)

    def set_mood(self, line: str) -> None:
        """Change the mode as a line of standard input says."""
        mood, _, value = line.strip().partition(" ")
        if mood == CHOOSE:
            self.wanted, self.mood = tuple(json.loads(value)), CHOOSE
        elif mood in MOODS:
            self.mood = mood


def _tokens(text: str) -> int:
    """Return about what a tokenizer counts: a token a Chinese character, one for four others."""
    wide = len(_WIDE.findall(text))
    return wide + (len(text) - wide) // 4


def main() -> None:
    """Serve until standard input ends."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, default=0, help="port on 127.0.0.1 (0 = any free one)")
    parser.add_argument("--mood", choices=MOODS, default="quick")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--log", type=argparse.FileType("a"), required=True, help="where every request is written")
    chosen = parser.parse_args()
    model = FaultyModel(chosen.mood, chosen.seed, chosen.log)
    with ScriptedServer(model.answer, port=chosen.port) as server:
        print(server.port, flush=True)
        for line in sys.stdin:
            model.set_mood(line)
            print(model.mood, flush=True)


if __name__ == "__main__":
    main()
