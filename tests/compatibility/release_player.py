"""Plays turns with whichever release is on the path, as one host of several: it says each turn that was acknowledged.

    python release_player.py ADDRESS PACK NAME TURNS SESSION…

With `STATEMENTS` in the environment, it writes the SQL that it has sent to that file.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import anyio
import psycopg

from jacquard import open_runtime

SENT: set[str] = set()


class NotingCursor(psycopg.RawCursor):
    """Notes each statement that is sent."""

    def execute(self, query, *args, **fields):
        if isinstance(query, str | bytes):
            SENT.add(query if isinstance(query, str) else query.decode())
        return super().execute(query, *args, **fields)


async def play(address: str, pack: str, name: str, turns: int, sessions: list[str]) -> None:
    async with open_runtime(address, world=pack, embedder="none") as runtime:
        engine = runtime.engine
        print("ready", flush=True)
        await anyio.to_thread.run_sync(sys.stdin.readline)
        for number in range(turns):
            for session_id in sessions:
                await runtime.ensure_session(session_id, index=False)
                turn_id = f"{name}-{number}"
                reply = f"<content>The lamp turned for {turn_id}.</content>"
                while True:
                    prepared = await engine.prepare_turn(session_id, f"I look around, {turn_id}.", turn_id=turn_id)
                    try:
                        await engine.commit_assistant_message(session_id, reply, turn_id=prepared.turn_id)
                        break
                    except Exception as error:
                        # The other host's next message took the place of this pending one: it is committed unanswered.
                        if type(error).__name__ != "TurnNotPendingError":
                            raise
                        turn_id += "'"
                print("played", session_id, turn_id, flush=True)


if __name__ == "__main__":
    psycopg.RawCursor = NotingCursor
    address, pack, name, turns, *sessions = sys.argv[1:]
    anyio.run(play, address, pack, name, int(turns), sessions)
    if "STATEMENTS" in os.environ:
        Path(os.environ["STATEMENTS"]).write_text(json.dumps(sorted(SENT), ensure_ascii=False), encoding="utf-8")
