"""Gives the profiles of turns, read off the event loop."""

from __future__ import annotations

from collections.abc import Sequence

from anyio import to_thread

from jacquard.templating.files import TemplateRoot, template_roots
from jacquard.templating.profiles import Profile, find_profile_id, load_profile
from mnemosyne.schema.world import WorldPack

_MOST_HELD = 64


class ProfileSource:
    """Gives profiles; each is read once for a version of a pack."""

    def __init__(self, roots: Sequence[TemplateRoot]) -> None:
        self._roots = tuple(roots)
        self._held: dict[tuple[str, str, str], Profile] = {}

    async def load(self, setting: str, world: WorldPack) -> Profile:
        """Return the profile that a setting means in a world; ConfigError where there is none."""
        key = (find_profile_id(setting, world), world.world_id, world.digest)
        if key not in self._held:
            if len(self._held) >= _MOST_HELD:
                self._held.clear()
            self._held[key] = await to_thread.run_sync(load_profile, key[0], template_roots(self._roots, world))
        return self._held[key]
