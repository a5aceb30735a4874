"""Improves the plan of a turn with one call of a small model (planner tier 1), if the rules are not confident.

The module works with any `LlmAdapter` and must not import one. Everything in the prompt except the rules is escaped and marked as
data. The answer is not trusted: quests and templates in the plan must be known to the session and the world.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from time import perf_counter
from types import MappingProxyType
from typing import Any

from filament import escape_attribute, escape_text
from filament.reply.json_body import unescape_strings
from jacquard.adapters.prompts.templates import render_prompt, warm_prompts
from jacquard.core.errors import ModelError
from jacquard.core.model_calls import Call, usage_of
from jacquard.core.plan import KEYWORD_CHARS, MAX_KEYWORDS, OverviewScope, PlanContext, Temporal
from jacquard.core.protocols import LlmAdapter, LlmRequest, MessagePart, PlanRequest
from jacquard.core.quests import find_active_quests
from jacquard.pipeline.planning.template_choice import describe_templates, template_ids
from mnemosyne.core.tokens import CalibratedEstimator
from mnemosyne.schema.document import ModelUsage, ModelUsageStage

RECENT_MESSAGES = 4
RECENT_CHARS = 240
INPUT_CHARS = 2000
GOAL_CHARS = 300
_PRESENT = ' present="true"'
_COUNT = CalibratedEstimator().estimate
_NO_OVERVIEW = "none"
DOMAINS = ("narrative", "lore", "event")


class ModelPlanner:
    """Improves plans with one call of a small model.

    `timeout_seconds` limits the call, and `max_tokens` limits the answer. `count` returns the tokens of a text. The
    caller decides how long to wait for the result.
    """

    name = "model"

    def __init__(
        self,
        llm: LlmAdapter,
        max_tokens: int = 300,
        timeout_seconds: float = 0.5,
        count: Callable[[str], int] = _COUNT,
    ) -> None:
        self.model = llm.model
        self._llm, self._count = llm, count
        self._max_tokens = max_tokens
        self._timeout_seconds = timeout_seconds

    async def refine(self, request: PlanRequest) -> tuple[PlanContext, tuple[ModelUsage, ...]]:
        """Return (plan, usages): the improved plan of `request`, and a tuple with the record of the model call.

        Raises ModelError if the model cannot be called. Raises ModelError with the code `bad_answer` if the answer
        breaks the schema. The error contains the record of the call.
        """
        started = perf_counter()
        templates = template_ids(request.world.planner)
        await warm_prompts()
        prompt = plan_prompt(request)
        call = Call(model=self.model, prompt="\n".join(text for _, text in prompt))
        try:
            reply = await self._llm.generate(
                LlmRequest(
                    messages=prompt,
                    max_tokens=self._max_tokens,
                    timeout_seconds=self._timeout_seconds,
                    schema=plan_schema(request, templates),
                )
            )
            call = replace(
                call,
                model=reply.model,
                answer=reply.content,
                prompt_tokens=reply.prompt_tokens,
                completion_tokens=reply.completion_tokens,
                latency_ms=(perf_counter() - started) * 1000,
            )
            return read_plan(reply.content, request, templates), (self._usage(call),)
        except ModelError as error:
            # The error carries the call, because its cost is recorded although there is no plan.
            spent = replace(call, latency_ms=(perf_counter() - started) * 1000)
            raise ModelError(error.code, error.detail, (self._usage(spent, str(error)),)) from error

    def _usage(self, call: Call, error: str = "") -> ModelUsage:
        return usage_of("", call, self._count, stage=ModelUsageStage.PLAN, purpose="plan", error=error)


def plan_schema(request: PlanRequest, templates: Sequence[str]) -> dict[str, Any]:
    """Return the JSON Schema of the model's answer. It allows only active quests of the session in `request`, and the
    template ids `templates`.
    """
    quests: list[str | None] = [quest.quest_id for quest in find_active_quests(request.window.state)]
    weight = {"type": "number", "minimum": 0, "maximum": 1}
    properties: dict[str, Any] = {
        "active_quest_id": {"type": ["string", "null"], "enum": quests or [None]},
        "current_goal": {"type": "string", "maxLength": GOAL_CHARS},
        "template_id": {"type": "string", "enum": list(templates)},
        "focus_keywords": {
            "type": "array",
            "maxItems": MAX_KEYWORDS,
            "items": {"type": "string", "maxLength": KEYWORD_CHARS},
        },
        "temporal_context": {"type": "string", "enum": [each.value for each in Temporal]},
        "overview": {"type": "string", "enum": [_NO_OVERVIEW, *(each.value for each in OverviewScope)]},
        "domain_weight": {
            "type": "object",
            "properties": dict.fromkeys(DOMAINS, weight),
            "required": list(DOMAINS),
            "additionalProperties": False,
        },
    }
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def plan_prompt(request: PlanRequest) -> tuple[MessagePart, ...]:
    """Return the messages of a call. The system message contains the rules. The user message contains quests, newest
    messages and input, all escaped.
    """
    described = describe_templates(request.world.planner)
    quests = "\n".join(
        f'<quest id="{escape_attribute(quest.quest_id)}"'
        f"{_PRESENT if quest.quest_id == request.plan.active_quest_id else ''}>"
        f"{escape_text(quest.title)}"
        f"{''.join(f'; {escape_text(step.text)}' for step in quest.open_objectives[:2])}</quest>"
        for quest in find_active_quests(request.window.state)
    )
    recent = "".join(f"{escape_text(_clip(line, RECENT_CHARS))}\n" for line in request.recent[-RECENT_MESSAGES:])
    history = f"<recent_history>\n{recent}</recent_history>\n" if recent else ""
    return render_prompt(
        "planner",
        request.world.locale,
        templates=", ".join(f'"{name}"{f" ({escape_text(text)})" if text else ""}' for name, text in described.items()),
        keywords=MAX_KEYWORDS,
        quests=quests,
        recent_history=history,
        current_input=escape_text(_clip(request.user_message, INPUT_CHARS)),
    )


def read_plan(text: str, request: PlanRequest, templates: Sequence[str]) -> PlanContext:
    """Return the plan of `request`, changed by the model's answer `text`. A locked focus is not changed. `templates`
    are the ids from which the answer may choose.

    Raises ModelError with the code `bad_answer` if the answer breaks the schema.
    """
    value = _read_object(text)
    plan = request.plan
    quest_id = _read_choice(
        value, "active_quest_id", [quest.quest_id for quest in find_active_quests(request.window.state)] or [None]
    )
    goal = _read_text(value, "current_goal", GOAL_CHARS)
    template_id = _read_choice(value, "template_id", templates)
    temporal = Temporal(_read_choice(value, "temporal_context", [each.value for each in Temporal]))
    keywords = _read_keywords(value.get("focus_keywords"))
    weights = _read_weights(value.get("domain_weight"))
    # Recorded answers of former releases do not have it.
    overview = _read_choice({"overview": _NO_OVERVIEW, **value}, "overview", [_NO_OVERVIEW, *OverviewScope])
    moved = not request.locked and quest_id != plan.active_quest_id
    stays = request.locked and quest_id != plan.active_quest_id
    intent = plan.search_intent
    return replace(
        plan,
        active_quest_id=quest_id if moved else plan.active_quest_id,
        current_goal=plan.current_goal if stays or not goal else goal,
        template_id=template_id,
        search_intent=replace(
            intent,
            focus_keywords=tuple(dict.fromkeys((*intent.focus_keywords, *keywords)))[:MAX_KEYWORDS],
            temporal_context=temporal,
            overview=intent.overview if overview == _NO_OVERVIEW else OverviewScope(overview),
            domain_weight=MappingProxyType(weights),
        ),
        tier=1,
        tier1="planned",
        reasons=(*plan.reasons, *_reasons(moved, stays, quest_id)),
    )


def _reasons(moved: bool, stays: bool, quest_id: str | None) -> tuple[str, ...]:
    first = "the rules were not sure, so a small model planned"
    if moved:
        return first, f"it moved the focus to {quest_id}"
    return (first, "the focus is locked, so it stayed") if stays else (first,)


def _read_object(text: str) -> Mapping[str, Any]:
    """Return the only JSON object of an answer; a fence or thoughts around it are accepted, an incomplete object is not."""
    body = text.rpartition("</think>")[2]
    start, end = body.find("{"), body.rfind("}")
    if start < 0 or end < start:
        raise ModelError("bad_answer", "the answer contains no JSON object")
    try:
        value = unescape_strings(json.loads(body[start : end + 1]))
    except (ValueError, RecursionError) as error:
        raise ModelError("bad_answer", f"the answer is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise ModelError("bad_answer", "the answer contains no JSON object")
    return value


def _read_choice(value: Mapping[str, Any], key: str, allowed: Sequence[Any]) -> Any:
    if value.get(key) not in allowed:
        raise ModelError(
            "bad_answer", f"{key} is {str(value.get(key))[:60]!r}, not one of {', '.join(map(str, allowed))}"
        )
    return value[key]


def _read_text(value: Mapping[str, Any], key: str, limit_chars: int) -> str:
    text = value.get(key)
    if not isinstance(text, str) or len(text) > limit_chars:
        raise ModelError("bad_answer", f"{key} is not a text of at most {limit_chars} characters")
    return " ".join(text.split())


def _read_keywords(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or len(value) > MAX_KEYWORDS:
        raise ModelError("bad_answer", f"focus_keywords is not a list of at most {MAX_KEYWORDS} words")
    if not all(isinstance(word, str) and len(word) <= KEYWORD_CHARS for word in value):
        raise ModelError("bad_answer", f"a focus keyword is not a text of at most {KEYWORD_CHARS} characters")
    return tuple(word.strip() for word in value if word.strip())


def _read_weights(value: Any) -> dict[str, float]:
    if not isinstance(value, dict) or set(value) != set(DOMAINS):
        raise ModelError("bad_answer", f"domain_weight does not have exactly the keys {', '.join(DOMAINS)}")
    for name, weight in value.items():
        if isinstance(weight, bool) or not isinstance(weight, int | float) or not 0 <= weight <= 1:
            raise ModelError("bad_answer", f"domain_weight.{name} is not a number between 0 and 1")
    return {name: float(weight) for name, weight in value.items()}


def _clip(text: str, limit_chars: int) -> str:
    line = " ".join(text.split())
    return line if len(line) <= limit_chars else line[: limit_chars - 1] + "…"
