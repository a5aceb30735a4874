"""A small world, windows over it and plans, for the tests of the planner and Stream A."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from jacquard import PlanContext
from jacquard.core.plan import SearchIntent, Triage, plan_to_json
from mnemosyne import Author, Chain, MemoryEntry, Message, Role, Summary
from mnemosyne.schema.memory import Comparison, Condition
from mnemosyne.schema.record import PathSummary, SessionWindow, TurnRecord
from mnemosyne.schema.session import SessionHead, TurnKind, TurnStatus, WindowMessage
from mnemosyne.schema.world import Entity, NumericalAction, PlannerRules, TemplateRule, WorldPack


class CharacterEstimator:
    """One token a character: exact and easy to reckon with."""

    name = "characters"

    def estimate(self, text: str) -> int:
        return len(text)


STATE: dict[str, Any] = {
    "hero": {"name": "Kai", "health": [85, "受伤状态"], "gold": 12, "$meta": {"limits": {"health": [0, 100]}}},
    "location": "低语森林 - 外部",
    "inventory": {
        "main_bag": {
            "_anchor": "bag_main",
            "items": [
                {"id": "item_sword_01", "name": "Iron Sword", "count": 1},
                {"id": "item_potion_02", "name": "Healing Potion", "count": 2},
            ],
        }
    },
    "quests": {
        "q_001": {
            "id": "q_001",
            "title": "森林神庙",
            "status": "active",
            "progress": "已找到 2/3 个符文",
            "objectives": [
                {"id": "q_001_a", "text": "问村长", "status": "completed"},
                {"id": "q_001_b", "text": "找到森林神庙的入口", "status": "active"},
            ],
            "entities": ["temple", "temple_key"],
        },
        "q_002": {
            "id": "q_002",
            "title": "The Lost Lamb",
            "status": "active",
            "objectives": [{"id": "q_002_a", "text": "Bring the lamb home", "status": "active"}],
            "entities": ["lamb", "shepherd"],
        },
        "q_003": {
            "id": "q_003",
            "title": "A Secret To Come",
            "status": "inactive",
            "objectives": [{"id": "q_003_a", "text": "unmask the elder", "status": "active"}],
        },
    },
}

ENTITIES = (
    Entity(entity_id="temple", name="森林神庙", aliases=("神庙", "Forest Temple", "temple")),
    Entity(entity_id="temple_key", name="神庙钥匙", aliases=("钥匙", "jade key")),
    Entity(entity_id="elder", name="村长", aliases=("Elder", "the old man")),
    Entity(entity_id="lamb", name="Lamb", aliases=("小羊",)),
    Entity(entity_id="shepherd", name="Shepherd Ann", aliases=("Ann", "the old man")),
)

HEAL = NumericalAction(
    action_id="drink_potion",
    patterns=("(?:喝|使用)(?:一瓶)?(?:治疗)?药水", "(?:drink|use) (?:a |the )?(?P<what>potion|healing potion)"),
    guards=(Condition(path="item_potion_02.count", op=Comparison.GT, value=0, message="You have no potion left."),),
    ops=(("SUB", "item_potion_02.count", 1), ("ADD", "hero.health", 30)),
    reply="Health {{ state.hero.health }}, {{ item('item_potion_02').count }} left"
    "{% if groups.what %} ({{ groups.what }}){% endif %}.",
)


def lore(entry_id: str, kind: str, text: str, **more: Any) -> MemoryEntry:
    return MemoryEntry(entry_id=entry_id, scope="world:forest", chain=Chain.LORE, kind=kind, text=text, **more)


WORLD = WorldPack(
    world_id="forest",
    title="低语森林",
    locale="zh-CN",
    instruction="你是低语森林的叙事者。",
    persona={"name": "林语", "voice": ["低沉", "像风"]},
    state=STATE,
    entities=ENTITIES,
    lore=(
        lore("axiom_dead", "axiom", "死者不会回来。", title="死亡"),
        lore("axiom_secret", "axiom", "村长是凶手。", viewers=("gm",)),
        lore("dir_poem", "directive", "写成四行诗。", keys=("诗", "poem")),
        lore("dir_always", "directive", "不要替玩家说话。", metadata={"constant": True}, priority=90),
        lore("lore_elder", "encyclopedia", "村长有一把钥匙。"),
    ),
    actions=(HEAL,),
    planner=PlannerRules(
        templates=(
            TemplateRule(template_id="combat", keywords=("攻击", "attack")),
            TemplateRule(
                template_id="dense",
                keywords=("list",),
                when=(Condition(path="hero.gold", op=Comparison.GE, value=10),),
            ),
        )
    ),
    prologue=(),
    narratives=(),
    digest="d1",
    user_name="凯",
)


def said(number: int, role: Role, text: str, *, author: Author | None = None, turn: str | None = None) -> WindowMessage:
    """One message; two of them make a turn unless `turn` says otherwise."""
    turn_id = turn or f"t{number // 2:03d}"
    return WindowMessage(
        message=Message(role=role, content=text, message_id=f"m{number:03d}", author=author),
        turn_id=turn_id,
        branch_id="main",
        depth=number // 2 + 1,
    )


def talk(texts: Sequence[str]) -> tuple[WindowMessage, ...]:
    """Messages by turns of user and assistant."""
    return tuple(said(place, (Role.USER, Role.ASSISTANT)[place % 2], text) for place, text in enumerate(texts))


def window(
    messages: Sequence[WindowMessage] = (),
    *,
    state: Mapping[str, Any] | None = None,
    focus: str | None = None,
    start: str | None = None,
    summary: str | None = None,
) -> SessionWindow:
    """A window whose previous turn had this focus and this start of history."""
    head = SessionHead(
        session_id="s", world_id="forest", branch_id="main", turn_id="t000", depth=1, lineage=(), version=1
    )
    previous = TurnRecord(
        turn_id="t000",
        session_id="s",
        branch_id="main",
        depth=1,
        parent_id=None,
        kind=TurnKind.NARRATIVE,
        status=TurnStatus.COMMITTED,
        messages=(),
        plan=plan_to_json(replace(PLAN, active_quest_id=focus)) if focus else None,
        prompt={"history_start": start} if start else None,
    )
    return SessionWindow(
        head=head,
        messages=tuple(messages),
        state=STATE if state is None else state,
        previous=previous,
        summary=summarised(summary) if summary else None,
    )


def summarised(text: str) -> PathSummary:
    return PathSummary(turn_id="t000", branch_id="main", depth=1, summary=Summary(content=text))


PLAN = PlanContext(
    triage=Triage.NARRATIVE,
    active_quest_id="q_001",
    current_goal="找到森林神庙的入口（已找到 2/3 个符文）",
    template_id="chat",
    search_intent=SearchIntent(enabled=True, focus_keywords=("神庙钥匙",)),
)
