"""A party game: several people speak in one session, and each one's prompt holds only what that one may know.

python examples/party.py
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import anyio
from model import open_model

from jacquard import RuntimeConfig, open_runtime
from mnemosyne import Author, AuthorKind, Message, Role

WORLD = Path(__file__).parent / "dinner_party"
INPUTS = (
    ("Ann", "What do I know about the ring and the piano?"),
    ("Bo", "And what do I know about the ring?"),
    ("Cleo", "The ring! What did I do with it?"),
)
SCRIPT = (
    "text:<content>You saw a glove there.</content>",
    "text:<content>The glove is yours, but the theft is not.</content>",
    "text:<content>It is in the soup.</content>",
)


async def play(inputs: tuple[tuple[str, str], ...], folder: str) -> None:
    """Play one turn for each guest who speaks."""
    config = RuntimeConfig()
    async with open_model(*SCRIPT) as model, open_runtime(folder, world=WORLD, config=config) as runtime:
        await runtime.ensure_session("dinner")
        for name, said in inputs:
            author = Author(kind=AuthorKind.USER, id=name)
            # What only Ann may know is in prompts for Ann alone, and so is every turn that showed it.
            turn = await runtime.engine.prepare_turn(
                "dinner", Message(role=Role.USER, content=said, author=author), replace(config, viewer=name)
            )
            answer = await model.ask(turn.to_openai())
            done = await runtime.engine.commit_assistant_message("dinner", answer.content or "")
            known = [entry.title for entry in turn.package.evidence]
            print(f"{name}: {said}\n{done.content}\n  (shown: {', '.join(known)})\n")


if __name__ == "__main__":
    with TemporaryDirectory() as folder:
        anyio.run(play, INPUTS, folder)
