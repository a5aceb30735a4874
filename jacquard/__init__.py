"""Jacquard prepares, for every turn of an agent, the exact prompt that its model sees, with a receipt.

These are the public names of the package. `__init__.pyi` lists them with the module that defines each. A module is
loaded when one of its names is first used, so that `import jacquard` stays fast.

Words of this package:

- A turn is one user message (the input) with its prompt and its reply. The head of a branch is its newest committed
  turn. A world, or pack, is the material of an author: lore, quests, templates and first state.
- The plan of a turn states what the input is about: focus (the active quest), goal, template, and search for memories.
  Planner tier 0 is the rules. Tier 1 is a refiner, a small model that improves a plan of which the rules are not
  confident.
- Stream A renders the skeleton: the blocks that follow from fixed rules (state, quests, guidance, history). Stream B
  recalls memories as candidates, and a selector chooses a few of them. A lease is the use of one selection in several
  turns.
- A block is a piece of a prompt. A slot is a place for blocks, and a layout (`SkeinTemplate`) orders the slots. The
  frame is the text between blocks: tags and blank lines.
- The receipt (`Report`) states for every block and candidate why it is in the prompt or not. The snapshot contains all
  inputs of a prompt, so that the prompt can be made again.
- A degradation is something that a turn had to do without, such as a model that did not answer.
- A profile is the kind of agent: story, assistant, coding or support. The profile decides template, layout and the form
  of the reply. A directive is an instruction of the author in the pack; an axiom is lore that every prompt shows.
- An op is one change of the state that a reply asks for. Evidence is a stored text with its source, such as a tool
  result.
- A tenant is a customer whose data the service keeps apart from other customers. A viewer is a person who may know only
  a part of the memories.
"""

from importlib import import_module

from jacquard.wiring.installation import check_packages

check_packages("filament", "mnemosyne", "jacquard")
__getattr__, __dir__, __all__ = import_module("mnemosyne.core.optional_packages").attach_names(
    __name__,
    __file__,
    {
        ("opentelemetry", "otel"): ("OtelTracing",),
        ("prometheus_client", "prometheus"): ("PrometheusMetrics",),
    },
)
