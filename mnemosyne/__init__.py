"""Mnemosyne stores what an agent remembers (sessions, evidence, lore), indexes it, and recalls it.

These are the public names of the package. `__init__.pyi` lists them with the module that defines each. A module is
loaded when one of its names is first used, so that `import mnemosyne` stays fast.
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
