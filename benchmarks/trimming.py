"""What LangChain agents have of a long conversation in a prompt of the same size: with our middleware, with `trim_messages`, and
beside a summarizer that is given the labelled lines.

Whole conversations of a labelled set are the agents' history; then each question about them is put to all agents. Each prompt as
the model got it is searched for the lines that the set names as evidence. `granted` is no rival but a bound: its summary holds
the labelled lines themselves, as many as fit, and the newest messages fill the rest.

It needs LangChain: pip install -e ".[local,evals,langchain]", or PYTHON of `make test-frameworks` with the extra `local`.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from evals.dataset import LabelledQuery, LabelledSet, read_set
from evals.play.conversations import Conversation, find_conversations
from evals.play.engine import RememberingEmbedder, limit_prompts
from evals.running.run import find_language
from jacquard import RuntimeConfig, create_context_engine, open_embedder, open_token_estimator
from mnemosyne import MemoryStore, Message, Role

SETTLE_SECONDS = 600.0
OVERHEAD_TOKENS = 4
SYSTEM = "You are a helpful assistant."
ARMS = ("ours", "trim_messages", "granted")
TOLD = {
    "ours": "LangChain with our middleware",
    "trim_messages": "LangChain with trim_messages",
    "granted": "a summary of the labelled lines (bound)",
}

Progress = Callable[[str, int, int], None]


@dataclass(kw_only=True, slots=True)
class Score:
    """What the prompts of one agent held: shares of labelled lines, whether all of them, and tokens."""

    shares: list[float] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)

    def to_plain(self) -> dict[str, Any]:
        """Return the means."""
        return {
            "questions": len(self.shares),
            "evidence": round(statistics.fmean(self.shares), 4) if self.shares else None,
            "whole": round(sum(share == 1.0 for share in self.shares) / len(self.shares), 4) if self.shares else None,
            "tokens": round(statistics.fmean(self.tokens)) if self.tokens else None,
        }


async def measure(
    labelled: LabelledSet, *, budget_tokens: int, questions: int, embedder: str, progress: Progress
) -> dict[str, Any]:
    """Ask at most `questions` questions, spread over the conversations; return the scores by agent."""
    count = open_token_estimator(RuntimeConfig()).estimate
    texts = {each.document_id: each.text for each in labelled.corpus.documents}
    found = [each for each in find_conversations(labelled) if each.questions]
    scores = {name: Score() for name in ARMS}
    each_takes = max(1, questions // max(1, len(found)))
    model = open_embedder(embedder, language=find_language(labelled.pools()))
    for place, conversation in enumerate(found, start=1):
        agents = await _open_agents(conversation, budget_tokens, model, count)
        step = max(1, len(conversation.questions) // each_takes)
        for query in conversation.questions[::step][:each_takes]:
            gold = [texts[name] for name in sorted(query.wanted) if name in texts]
            if gold:
                for name, prompt in (await agents.ask(query, gold)).items():
                    scores[name].shares.append(_share(gold, prompt))
                    scores[name].tokens.append(
                        sum(count(text) + OVERHEAD_TOKENS for text in prompt) + count(query.text)
                    )
        await agents.close()
        progress("conversations", place, len(found))
    return {"budget": budget_tokens, **{name: score.to_plain() for name, score in scores.items()}}


def _share(gold: Sequence[str], prompt: Sequence[str]) -> float:
    text = "".join("".join(each.split()) for each in prompt)
    return sum("".join(line.split()) in text for line in gold) / len(gold)


class _Agents:
    """The agents after one conversation. LangChain is imported here alone, since no other benchmark needs it."""

    def __init__(self, engine: Any, history: list[Any], budget_tokens: int, count: Callable[[str], int]) -> None:
        from langchain.agents import create_agent
        from langchain.agents.middleware import AgentMiddleware
        from langchain_core.messages import HumanMessage, SystemMessage, trim_messages

        from benchmarks.recording_model import RecordingModel
        from jacquard.integrations.langchain import ContextMiddleware

        def tokens_of(messages: Sequence[Any]) -> int:
            return sum(count(str(message.content)) + OVERHEAD_TOKENS for message in messages)

        class Trim(AgentMiddleware):  # type: ignore[misc]
            async def awrap_model_call(self, request: Any, handler: Any) -> Any:
                room = budget_tokens - tokens_of([SystemMessage(SYSTEM)])
                kept = trim_messages(
                    request.messages, max_tokens=room, token_counter=tokens_of, strategy="last", start_on="human"
                )
                return await handler(request.override(messages=kept))

        self._engine, self._history, self._human = engine, history, HumanMessage
        self._budget_tokens, self._count, self._tokens_of = budget_tokens, count, tokens_of
        self._models = {"ours": RecordingModel(), "trim_messages": RecordingModel()}
        middleware = {"ours": ContextMiddleware(engine, session=lambda _: "talk"), "trim_messages": Trim()}
        self._agents = {
            name: create_agent(model, [], system_prompt=SYSTEM, middleware=[middleware[name]])
            for name, model in self._models.items()
        }

    async def ask(self, query: LabelledQuery, gold: Sequence[str]) -> dict[str, list[str]]:
        """Return the texts of each agent's prompt, but the question, and keep question and answer in the history."""
        asked = self._human(query.text, id=query.query_id)
        prompts: dict[str, list[str]] = {}
        for name, agent in self._agents.items():
            done = await agent.ainvoke({"messages": [*self._history, asked]})
            prompts[name] = [str(message.content) for message in self._models[name].received[:-1]]
        await self._engine.settle(SETTLE_SECONDS)
        prompts["granted"] = self._grant(gold, asked)
        self._history = [*self._history, asked, done["messages"][-1]]
        return prompts

    def _grant(self, gold: Sequence[str], asked: Any) -> list[str]:
        room = self._budget_tokens - self._tokens_of([asked]) - self._count(SYSTEM) - 2 * OVERHEAD_TOKENS
        kept: list[str] = []
        for line in gold:
            if (cost := self._count(line)) <= room:
                kept.append(line)
                room -= cost
        newest: list[str] = []
        for message in reversed(self._history):
            room -= self._tokens_of([message])
            if room < 0:
                break
            newest.append(str(message.content))
        return [SYSTEM, "\n".join(kept), *reversed(newest)]

    async def close(self) -> None:
        """End the engine."""
        await self._engine.close()


async def _open_agents(
    conversation: Conversation, budget_tokens: int, model: Any, count: Callable[[str], int]
) -> _Agents:
    from langchain_core.messages import AIMessage, HumanMessage

    config = limit_prompts(None, budget_tokens)
    embedder = None if model is None else RememberingEmbedder(model)
    engine = create_context_engine(MemoryStore(), config=config, embedder=embedder)
    history: list[Any] = []
    adopted: list[Message] = []
    for number, said in enumerate(conversation.exchanges):
        history += [HumanMessage(said.input, id=f"u{number}"), AIMessage(said.reply, id=f"a{number}")]
        adopted += [
            Message(role=Role.USER, content=said.input, message_id=f"u{number}", at=said.at),
            Message(role=Role.ASSISTANT, content=said.reply, message_id=f"a{number}", at=said.at),
        ]
    await engine.adopt_messages("talk", adopted)
    await engine.prepare_turn("talk", "Hello.")
    await engine.settle(SETTLE_SECONDS)
    return _Agents(engine, history, budget_tokens, count)


async def run(
    data: Path,
    budget_tokens: int,
    questions: int,
    embedder: str,
    say: Callable[[str], None],
    progress: Progress,
) -> dict[str, Any]:
    """Measure one set; EvalError where it cannot be read."""
    say(f"agents on the conversations of {data.name}: prompts of {budget_tokens} tokens")
    labelled = read_set(data)
    made = await measure(
        labelled, budget_tokens=budget_tokens, questions=questions, embedder=embedder, progress=progress
    )
    return {"set": data.name, **made}


def show(figures: Mapping[str, Any], out: Console) -> None:
    """Print the table."""
    table = Table(title=f"labelled evidence in the prompt, {figures['set']}, {figures['budget']} tokens", box=None)
    for heading in ("agent", "questions", "evidence %", "all of it %", "tokens"):
        table.add_column(heading, justify="left" if heading == "agent" else "right")
    for name in ARMS:
        row = figures[name]
        shares = [f"{100 * row[key]:.1f}" if row[key] is not None else "" for key in ("evidence", "whole")]
        table.add_row(TOLD[name], str(row["questions"]), *shares, str(row["tokens"]))
    out.print(table)
