"""A game in the whispering forest: the model tells the story and changes the state; numbers are played without it.

python examples/game.py
"""

from __future__ import annotations

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import anyio
from model import open_model

from jacquard import open_runtime

WORLD = Path(__file__).parent / "whispering_forest" / "en"
INPUTS = ("I show Aldren the wet letter.", "drink a healing potion", "What did he say about the key?")
SCRIPT = (
    "text:<content>Aldren reads it twice. 'The key was never lost,' he says. The cold bites.</content>"
    '<state_update>[["SUB", "hero.health", 5]]</state_update>',
    "text:<content>That it was never lost.</content>",
)


async def play(inputs: tuple[str, ...], folder: str) -> None:
    """Play one turn for each input."""
    async with open_model(*SCRIPT) as model, open_runtime(folder, world=WORLD) as runtime:
        await runtime.ensure_session("game")
        for said in inputs:
            turn = await runtime.engine.prepare_turn("game", said)
            told = turn.reply
            if told is None:
                answer = await model.ask(turn.to_openai())
                done = await runtime.engine.commit_assistant_message("game", answer.content or "")
                told = done.content
                if done.refused:
                    print(f"  (not carried out: {done.refused})")
            print(f"> {said}\n{told}\n")


if __name__ == "__main__":
    with TemporaryDirectory() as folder:
        anyio.run(play, tuple(sys.argv[1:]) or INPUTS, folder)
