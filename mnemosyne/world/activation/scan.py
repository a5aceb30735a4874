"""Finds which entries a chat sets off: those with a key in the scanned text, and constant ones."""

from __future__ import annotations

from collections.abc import Sequence

from mnemosyne.world.activation.values import (
    Activated,
    Activation,
    CountTokens,
    Roll,
    ScanContext,
    TimedEffect,
    TimedEffects,
    WorldInfoEntry,
    WorldInfoSettings,
)


def scan(
    entries: Sequence[WorldInfoEntry],
    context: ScanContext,
    settings: WorldInfoSettings,
    *,
    count_tokens: CountTokens,
    roll: Roll,
) -> Activation:
    """Return what a chat sets off."""
    length = len(context.messages) if context.chat_length is None else context.chat_length
    lasting = {
        name: effect
        for name, effect in context.effects.sticky.items()
        if effect.start < length <= effect.end or effect.is_protected
    }
    active: list[Activated] = []
    sticky = dict(lasting)
    for entry in sorted(entries, key=lambda each: -each.order):
        name = f"{entry.world}.{entry.uid}"
        if entry.disable or (entry.triggers and context.trigger not in entry.triggers):
            continue
        depth = settings.scan_depth if entry.scan_depth is None else entry.scan_depth
        told = [f"{each.name}: {each.text}" if each.name else each.text for each in context.messages[:depth]]
        told += [context.fields.get(each, "") for each in entry.match_fields]
        text = "\n".join(told).casefold()
        found = next((key for key in entry.key if key and key.casefold() in text), None)
        if entry.constant:
            active.append(Activated(entry=entry, pass_number=1, reason="constant"))
        elif name in lasting:
            active.append(Activated(entry=entry, pass_number=1, reason="sticky"))
        elif found is not None:
            active.append(Activated(entry=entry, pass_number=1, reason="key", key=found))
            if entry.sticky:
                sticky[name] = TimedEffect(entry_hash="", start=length, end=length + entry.sticky)
    return Activation(
        active=tuple(active),
        effects=TimedEffects(sticky=sticky),
        tokens=sum(count_tokens(each.entry.content) for each in active),
        passes=1,
    )
