"""Chooses the template of a turn's prompt by the rules of the world, in their order, or by default rules.

Pure. This module must not import a stream, a store or a model.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from jacquard.pipeline.planning.reading import OVERVIEW, RECALL, InputReading, has_keyword
from mnemosyne.chains.state import view_state
from mnemosyne.schema.world import PlannerRules, TemplateRule

CHAT = "chat"
DEFAULT_RULES = (
    TemplateRule(template_id="flashback", intents=(RECALL,)),
    TemplateRule(template_id="dense", intents=(OVERVIEW,)),
)
"""Rules for a world that has no template rules of its own and keeps the default template. These rules have no template
for fights.
"""

DESCRIPTIONS: Mapping[str, str] = MappingProxyType(
    {
        CHAT: "talk, exploration, and everything else",
        "combat": "somebody fights in this turn; not where it is refused, told or planned",
        "flashback": "the input asks about, or calls to mind, what happened before",
        "dense": "the input asks for many facts at once: a list, an overview, a comparison, a plan",
    }
)
"""Purpose of each shipped template; a rule's own description replaces it."""


def template_rules(rules: PlannerRules) -> tuple[TemplateRule, ...]:
    """Return the template rules of a world in the order in which they are tried."""
    if rules.templates or rules.default_template != CHAT:
        return rules.templates
    return DEFAULT_RULES


def template_ids(rules: PlannerRules) -> tuple[str, ...]:
    """Return the ids of the templates from which the planner of a world may choose, the default template first."""
    return tuple(dict.fromkeys((rules.default_template, *(rule.template_id for rule in template_rules(rules)))))


def describe_templates(rules: PlannerRules) -> Mapping[str, str]:
    """Return template id -> purpose for each of `template_ids(rules)`, in order; the purpose is '' if it is unknown."""
    own = {rule.template_id: rule.description for rule in reversed(template_rules(rules)) if rule.description}
    return {name: own.get(name, DESCRIPTIONS.get(name, "")) for name in template_ids(rules)}


def choose_template(
    reading: InputReading, state: Mapping[str, Any], rules: PlannerRules, previous: str | None = None
) -> tuple[str, bool]:
    """Return (template_id, has_matched): the template of the first rule that matches the input, and true.

    If no rule matches, return the default template and false. If an input asks for the same again, the template
    `previous` of the previous turn is kept; this counts as a match.
    """
    if reading.is_again and previous in template_ids(rules):
        return previous, True
    view = view_state(state)
    for rule in template_rules(rules):
        if rule.temporal_context and reading.temporal.value not in rule.temporal_context:
            continue
        if not _is_wanted(rule, reading):
            continue
        if all(view.holds(condition) for condition in rule.when):
            return rule.template_id, True
    return rules.default_template, False


def _is_wanted(rule: TemplateRule, reading: InputReading) -> bool:
    if not rule.keywords and not rule.intents:
        return True
    return not reading.intents.isdisjoint(rule.intents) or any(has_keyword(reading, each) for each in rule.keywords)
