"""Mnemosyne stores what an agent remembers (sessions, evidence, lore), indexes it, and recalls it.

These are the public names of the package. `__init__.pyi` lists them with the module that defines each. A module is
loaded when one of its names is first used, so that `import mnemosyne` stays fast.

Words of this package:

- A turn is an input with its reply. A session is a tree of turns with branches; the head of a branch is its last
  turn.
- The lineage of a head is the path from the first turn to the head, as spans: stretches of branches, each up to a
  depth.
- A scope is one session or one world. Memory entries belong to a scope and to a chain, one of the kinds of memory.
- Evidence is text from outside: tool results, retrieved passages and documents. A ref points at a part of it.
- A block is a part of a prompt. The receipt of a turn states why each block is in the prompt.
- An op is one change of the state that a reply asks for.
"""

from mnemosyne.core.optional_packages import attach_names

__getattr__, __dir__, __all__ = attach_names(
    __name__,
    __file__,
    {
        ("litellm", "models"): ("RemoteEmbedder",),
        ("psycopg", "postgres"): ("PostgresSessionLocks", "PostgresStore"),
        ("tiktoken", "tokens"): ("TiktokenEstimator",),
        ("tokenizers", "onnx"): ("LocalEmbedder", "TokenizerFileEstimator", "export_model", "model_folder"),
    },
)
