"""Builds a `WorldPack` from a draft without faults. A draft is all files of a pack, parsed and checked."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from mnemosyne.chains.quantities import expand_pattern
from mnemosyne.schema.memory import Chain, MemoryEntry, world_scope
from mnemosyne.schema.world import (
    ActionNumber,
    Entity,
    Injection,
    NumericalAction,
    PlannerRules,
    PrologueEvent,
    PrologueNarrative,
    PrologueTurn,
    TemplateRule,
    WorldPack,
)
from mnemosyne.world.checking.state import StateTree, start_state
from mnemosyne.world.reading.draft import Item, PackDraft
from mnemosyne.world.reading.files import PackFolder


def build_world(draft: PackDraft, tree: StateTree, pack: PackFolder) -> WorldPack:
    """Return the world of `draft`. `tree` is the state with the quests, and `pack` has the files of the draft."""
    world = draft.world.value
    return WorldPack(
        world_id=world["id"],
        title=world["title"],
        locale=world["locale"],
        profile=world["profile"],
        instruction=world["instruction"].strip(),
        persona=dict(world["persona"]),
        user_name=world["user_name"],
        state=start_state(tree),
        story_time=tuple(world["story_time"]),
        entities=tuple(_entity(each) for each in world["entities"]),
        lore=tuple(_lore(each, world_scope(world["id"])) for each in draft.lore if each[1]["enabled"]),
        disabled=tuple(_lore(each, world_scope(world["id"])) for each in draft.lore if not each[1]["enabled"]),
        activation=world["activation"],
        imported=draft.imported,
        actions=tuple(_action(each) for _, each in draft.actions),
        planner=_planner(draft.planner.value),
        injections=tuple(_injection(each) for _, each in draft.injections),
        prologue=tuple(_turn(each) for each in draft.history.value["turns"]),
        narratives=tuple(_narrative(each) for each in draft.history.value["narratives"]),
        digest=pack.digest,
        template_root=pack.template_root,
        templates=dict(pack.templates),
    )


def _entity(entity: Mapping[str, Any]) -> Entity:
    return Entity(entity_id=entity["id"], name=entity["name"], aliases=tuple(entity["aliases"]), kind=entity["kind"])


def _lore(item: Item, scope: str) -> MemoryEntry:
    place, entry = item
    return MemoryEntry(
        entry_id=entry["id"],
        scope=scope,
        chain=Chain.LORE,
        kind=entry["category"],
        text=entry["content"].strip(),
        title=entry["name"],
        entities=tuple(entry["entities"]),
        keys=tuple(entry["keys"]),
        tags=tuple(entry["tags"]),
        priority=entry["priority"],
        viewers=tuple(entry["viewers"]),
        when=tuple(entry["when"]),
        metadata={
            "kind": entry["kind"],
            "constant": entry["constant"],
            "source": place.file,
            **({"world_info": entry["world_info"]} if entry["world_info"] else {}),
        },
    )


def _action(action: Mapping[str, Any]) -> NumericalAction:
    names = [number["name"] for number in action["numbers"]]
    return NumericalAction(
        action_id=action["id"],
        patterns=tuple(expand_pattern(pattern, names) for pattern in action["patterns"]),
        ops=tuple(tuple(op) for op in action["ops"]),
        reply=action["reply"].strip(),
        guards=tuple(action["guards"]),
        numbers=tuple(ActionNumber(**number) for number in action["numbers"]),
    )


def _injection(injection: Mapping[str, Any]) -> Injection:
    return Injection(
        injection_id=injection["id"],
        text=injection["text"].strip(),
        title=injection["title"],
        every=injection["every"],
        on=tuple(injection["on"]),
        when=tuple(injection["when"]),
        cooldown=injection["cooldown"],
        once=injection["once"],
        priority=injection["priority"],
    )


def _planner(rules: Mapping[str, Any]) -> PlannerRules:
    return PlannerRules(
        default_template=rules["default_template"],
        templates=tuple(
            TemplateRule(
                template_id=rule["id"],
                keywords=tuple(rule["keywords"]),
                when=tuple(rule["when"]),
                intents=tuple(rule["intents"]),
                temporal_context=tuple(rule["temporal_context"]),
                description=rule["description"].strip(),
            )
            for rule in rules["templates"]
        ),
        past_words=tuple(rules["past_words"]),
        future_words=tuple(rules["future_words"]),
        domain_weights={
            time: {chain: float(weight) for chain, weight in weights.items() if weight is not None}
            for time, weights in rules["domain_weights"].items()
            if weights is not None
        },
        focus_locked=rules["focus_locked"],
        confidence_threshold=float(rules["confidence_threshold"]),
    )


def _turn(turn: Mapping[str, Any]) -> PrologueTurn:
    events: Iterable[Mapping[str, Any]] = turn["events"]
    return PrologueTurn(
        user=turn["user"].strip(),
        assistant=turn["assistant"].strip(),
        summary=turn["summary"].strip() if turn["summary"] is not None else None,
        events=tuple(
            PrologueEvent(
                event_id=event["id"],
                type=event["type"],
                summary=event["summary"].strip(),
                participants=tuple(event["participants"]),
                location=event["location"],
                quest_id=event["quest"],
            )
            for event in events
        ),
    )


def _narrative(narrative: Mapping[str, Any]) -> PrologueNarrative:
    return PrologueNarrative(
        narrative_id=narrative["id"],
        title=narrative["title"],
        text=narrative["text"].strip(),
        from_turn=narrative["from_turn"],
        to_turn=narrative["to_turn"],
    )
