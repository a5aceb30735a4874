"""Checks the templates of a pack: their syntax, and whether they can be rendered at the beginning of play.

Template files are read. No store and no model is used, only Stream A (the renderer of templates) with the pack's
initial state.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from jacquard.authoring.golden import build_case_turn
from jacquard.core.errors import JacquardError
from jacquard.core.protocols import Planner
from jacquard.pipeline.planning.actions import find_action_faults
from jacquard.pipeline.planning.rules import RulePlanner
from jacquard.pipeline.skeleton.automation import AutomationStream
from jacquard.templating import describe_template_faults, open_templates
from jacquard.templating.files import find_shipped_templates, template_roots
from jacquard.templating.limits import LimitError
from jacquard.templating.output_escaping import PrintError
from jacquard.templating.sets import TemplateSet
from mnemosyne.chains.lore import entries_by_category
from mnemosyne.core.tokens import CalibratedEstimator
from mnemosyne.protocols import TokenEstimator
from mnemosyne.schema.memory import LoreCategory
from mnemosyne.schema.world import WorldPack

_INPUT = "…"


def find_world_faults(world: WorldPack) -> list[str]:
    """Return the faults of a pack that its own checker does not find: in templates and actions, and names of missing
    templates.

    If no template has a syntax fault, the templates are rendered, with the limits of play.
    """
    own = template_roots((), world)
    templates = open_templates((*own, find_shipped_templates()))
    known = templates.template_ids
    wanted = [world.planner.default_template, *(rule.template_id for rule in world.planner.templates)]
    unknown = [name for name in dict.fromkeys(wanted) if name not in known]
    faults = [fault for root in own for fault in describe_template_faults(root)]
    if not faults:
        named = [name for name in dict.fromkeys((*wanted, *(known if own else ()))) if name in known]
        faults += find_opening_faults(world, templates, named, RulePlanner(), CalibratedEstimator())
    return [
        *faults,
        *find_action_faults(world),
        *(f"planner.yaml: template {name!r} does not exist; there are: {', '.join(known)}" for name in unknown),
    ]


def find_opening_faults(
    world: WorldPack, templates: TemplateSet, template_ids: Iterable[str], planner: Planner, estimator: TokenEstimator
) -> tuple[str, ...]:
    """Return the faults that stop a template from being rendered with the pack's initial state, one sentence each.

    For the pack's default template every fault counts, because play begins with this template. Any other template may
    need a later state. Therefore only faults that no state can remove count for other templates: unbounded work, and
    values that cannot be printed.
    """
    keys = [key for entry in entries_by_category(world.lore, LoreCategory.DIRECTIVE, frozenset()) for key in entry.keys]
    stream = AutomationStream(estimator, find_shipped_templates())
    faults: dict[str, None] = {}
    request = build_case_turn({"input": _INPUT}, world, planner).request
    # An input with a key of every directive, so that each of them is rendered too.
    request = replace(request, message=replace(request.message, content=" ".join([_INPUT, *keys])))
    for template_id in template_ids:
        try:
            stream.render_with(templates, replace(request, config=replace(request.config, template_id=template_id)))
        except JacquardError as error:
            lasting = isinstance(error.__cause__, LimitError | PrintError)
            if lasting or template_id == world.planner.default_template:
                faults[str(error)] = None
    return tuple(faults)
