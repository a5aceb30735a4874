"""Mnemosyne stores what an agent remembers (sessions, evidence, lore), indexes it, and recalls it.

These are the public names of the package. `__init__.pyi` lists them with the module of each, which is loaded when a
name is first used, so that `import mnemosyne` stays fast.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
