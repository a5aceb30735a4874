"""Jacquard prepares, for every turn of an agent, the exact prompt that its model sees, with a receipt.

These are the public names of the package. `__init__.pyi` lists them with the module of each, which is loaded when a
name is first used, so that `import jacquard` stays fast.
"""

import lazy_loader

from jacquard.wiring.installation import check_installation

check_installation()
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
