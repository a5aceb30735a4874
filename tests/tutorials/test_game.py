"""The tutorial of the game is lived in both languages: fifteen turns, the memory in the prompt, and the state at the end."""

from __future__ import annotations

import json
import re
from functools import partial
from pathlib import Path

import httpx
import pytest
from lived_pages import Command, Walk, read_page

from jacquard import sync
from jacquard.testing.server import ScriptedRequest, ScriptedServer, Step

ROOT = Path(__file__).parents[2]
LOCALES = {"en": "C.UTF-8", "zh": "zh_CN.UTF-8"}
MEMORY = {"en": "I keep it under the seventh plank from the crane.", "zh": "都藏在吊杆数过去第七块木板底下"}
QUESTION = {"en": "Where does Pia keep", "zh": "豆豆说过"}
SECRET = {"en": "Scratched into the token", "zh": "船牌背面"}
DUSK = {"en": "dusk: It is dark.", "zh": "dusk: 天黑了"}
_INPUT = re.compile(r"<user_input>\n(.*?)\n</user_input>", re.DOTALL)


def read_replies(page: Path) -> dict[str, str]:
    """Return the reply of the model to each input of the page, with the changes that the page shows below it."""
    replies: dict[str, str] = {}
    for command in read_page(page):
        if isinstance(command, Command) and command.typed:
            for exchange in "\n".join(command.shown).split("> ")[1:]:
                said, *told = exchange.split("\n")
                changes = [json.loads(line) for line in told if line.startswith("[")]
                content = " ".join(line for line in told if not line.startswith(("[", ">")))
                replies[said] = f"<content>{content}</content>" + (
                    f"<state_update>{json.dumps(changes, ensure_ascii=False)}</state_update>" if changes else ""
                )
    return replies


@pytest.mark.parametrize("language", ["en", "zh"])
def test_the_game_is_played_to_its_end(language, tmp_path):
    page = ROOT / "docs" / language / "tutorials" / "game.md"
    replies = read_replies(page)
    assert len(replies) == 15

    def answer(request: ScriptedRequest) -> Step:
        return Step(text=replies[find_input(request)])

    with ScriptedServer(answer) as model:
        given = {"OPENAI_BASE_URL": model.base_url, "LC_ALL": LOCALES[language]}
        with Walk(folder=tmp_path, set_by_walk=given) as walk:
            walk.live(page)
            turns = check_state(tmp_path)
            address = f"{walk.address}/s/evening/t/{turns[10]}"
            # The first page of the studio loads its templates, which takes long on a busy machine.
            shown = httpx.get(address, headers={"accept-language": language}, timeout=60)
    assert MEMORY[language] in shown.text, "the studio shows the memory"
    check_prompts(language, {find_input(request): request.text for request in model.requests})


def find_input(request: ScriptedRequest) -> str:
    """Return what the player said in the turn of a request."""
    return _INPUT.findall(request.messages[-1].text)[-1]


def check_prompts(language: str, prompts: dict[str, str]) -> None:
    """Check what the model was sent: the memory when it was asked for, the secret at the end, the template at dusk."""
    assert len(prompts) == 14, "one of the fifteen inputs is answered by an action"
    texts = list(prompts.values())
    (asked,) = [text for said, text in prompts.items() if said.startswith(QUESTION[language])]
    memories = asked.partition("<relevant_memories>")[2].partition("</relevant_memories>")[0]
    assert MEMORY[language] in memories
    assert asked.count(MEMORY[language]) == 1, "the conversation in this prompt no longer has it"
    assert [SECRET[language] in text for text in texts] == [False] * 13 + [True]
    assert [DUSK[language] in text for text in texts] == [False] * 6 + [True] * 8


def check_state(folder: Path) -> list[str]:
    """Check the state at the end of the game. Return the ids of the turns, oldest first."""
    with sync.open_runtime(folder / ".jacquard", embedder="none") as game:
        head = game.engine.run(game.runtime.store.head, "evening")
        turns = game.engine.run(partial(game.runtime.store.turns, "evening", limit=20))
        state = game.engine.run(game.runtime.store.state_at, "evening", head.turn_id)
    assert head.depth == 15
    assert {quest["status"] for quest in state["quests"].values()} == {"completed"}
    assert {step["status"] for quest in state["quests"].values() for step in quest["objectives"]} == {"completed"}
    player = state["sam"] if "sam" in state else state["azhou"]
    assert (state["hour"], player["coins"], player["health"][0]) == (18, 7, 85)
    assert [item["count"] for item in state["bag"]["items"]] == [1], "wheel and token were given away"
    return [turn.turn_id for turn in turns]
