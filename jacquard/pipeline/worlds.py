"""Reads and stores the world packs of sessions, and builds an empty world for sessions without a pack.

A world pack is what an author wrote about a world. The pack and the rows of its lore are written in one transaction
under one digest (hash of the pack). So pack and rows always have the same version, even if the folder of the pack is
edited meanwhile.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any

from jacquard.core.errors import WorldUnavailableError
from jacquard.core.quests import is_scalar, read_plain_value
from jacquard.templating.files import with_templates
from mnemosyne.core.errors import CodecError, DamagedRecordError
from mnemosyne.core.off_loop import run_off_loop
from mnemosyne.protocols import Store
from mnemosyne.schema.memory import EMPTY
from mnemosyne.schema.session import Message, Role
from mnemosyne.schema.world import BARE_DIGEST, PlannerRules, WorldPack
from mnemosyne.world.pack_json import pack_from_json, pack_to_json

BARE_WORLDS = ("", "bare")
"""Ids of worlds without a pack. Imported sessions, and sessions that `create_context_engine` starts by itself, have
such a world.
"""

_INSTRUCTIONS = {
    "en": "You are a helpful agent in a long conversation. Answer from what the context layers and the conversation hold; "
    "say so when they do not hold the answer.",
    "zh": "你是长对话中的助手。依据各层上下文和对话的内容作答；其中没有答案时，如实说明。",
}
_ACCOUNT_ID = re.compile(
    r"\d\S{4,}|\S*[@|:/]\S*|[0-9a-f-]{8,}|(?i:user|usr|uid|u|player|guest|account|acct|member|id)[-_.#]?\w*\d[\w-]*|(?=\S*\d)[\w-]{20,}"
)
_MOST_HELD = 64
_TRIES = 3
"""Maximum number of attempts to read a pack that another process replaces between two reads."""


def translate_bare_world(world: WorldPack, locale: str) -> WorldPack:
    """Return `world` with another `locale`. The instruction that we give a world without a pack is translated. Any
    other instruction is kept.
    """
    instruction = world.instruction
    if instruction in _INSTRUCTIONS.values():
        instruction = _INSTRUCTIONS["zh" if locale.lower().startswith("zh") else "en"]
    return replace(world, locale=locale, instruction=instruction)


@lru_cache(maxsize=64)
def build_bare_world(world_id: str) -> WorldPack:
    """Return a world without lore, quests, actions or rules, in English, for a session without a pack."""
    return WorldPack(
        world_id=world_id,
        title=world_id,
        locale="en",
        instruction=_INSTRUCTIONS["en"],
        persona={},
        state={},
        entities=(),
        lore=(),
        actions=(),
        planner=PlannerRules(),
        prologue=(),
        narratives=(),
        digest=BARE_DIGEST,
    )


def party_names(world: WorldPack) -> Mapping[str, str]:
    """Return role -> name: the name of the player for `user`, and the name of the persona for `assistant`. A name that
    the pack does not state is left out.

    Each name is on one line.
    """
    persona = read_plain_value(world.persona.get("name"))
    names = {
        Role.USER.value: world.user_name,
        Role.ASSISTANT.value: str(persona) if persona is not None and is_scalar(persona) else "",
    }
    return {role: " ".join(name.split()) for role, name in names.items() if name.strip()}


def is_account_id(name: str) -> bool:
    """Return whether the author id of a message is an account id, such as `3f0c9a-uuid` or `discord:88`, and not a name."""
    return bool(_ACCOUNT_ID.fullmatch(name)) and not name.isalpha()


def name_of_speaker(message: Message, names: Mapping[str, str] = EMPTY) -> str:
    """Return the name of the speaker of `message` on one line. `names` contains the names of the two parties (`party_names`)."""
    return name_of_author(message.author.id if message.author else "", message.role, names)


def name_of_author(author_id: str, role: str = Role.USER.value, names: Mapping[str, str] = EMPTY) -> str:
    """Return the name of the author with the id `author_id`, on one line.

    If the id is empty or an account id, return the name of the role. `names` contains the names of the two parties by
    role (`party_names`). If `names` has no name for the role, the name is the role itself.
    """
    name = " ".join(author_id.split())
    return names.get(role, role) if not name or is_account_id(name) else names.get(name, name)


class WorldSource:
    """Returns the packs of worlds from the store, and caches them.

    `given` contains packs of the host by world id. Such a pack is written to the store when it is first needed, and
    becomes the present version of its world. After that, the version in the store applies: a pack that another process
    writes is used from the next turn on.
    """

    def __init__(self, store: Store, given: Mapping[str, WorldPack]) -> None:
        self._store, self._given = store, dict(given)
        self._named: dict[str, WorldPack] = {}
        self._held: dict[str, WorldPack] = {}

    def replace_given(self, world: WorldPack) -> None:
        """Use `world` as the host's pack of its world, in place of an earlier one."""
        self._given[world.world_id] = world

    async def store_pack(self, world: WorldPack) -> int:
        """Write a pack with its lore as the present version of its world. Return the number of lore entries that
        changed.

        Raises TemplateError if the templates of the pack cannot be read.
        """
        world_id = world.world_id
        if self._named.get(world_id) is world and await self._store.world_digest(world_id) == world.digest:
            return 0
        whole, value = await run_off_loop(_pack_to_json, world)
        changed = await self._store.replace_world(world_id, world.digest, world.lore, value)
        self._named[world_id] = world
        self._cache_pack(whole)
        return changed

    async def world(self, world_id: str, *, write: bool = True, digest: str | None = None) -> WorldPack:
        """Return the present version of a world. Return an empty world if the store never had a pack of this world.

        Raises WorldUnavailableError if the pack of a known world is missing or cannot be read.

        Args:
            world_id: id of the world; '' gives an empty world.
            write: if false, a pack of the host is returned without writing it to the store.
            digest: digest of the present version, if the caller has just read it.
        """
        if not world_id:
            return build_bare_world(world_id)
        given = self._given.get(world_id)
        if given is not None:
            if not write:
                return given
            if world_id not in self._named:
                await self.store_pack(given)
        held = self._held.get(world_id)
        if held is not None and held.digest == digest:
            return held
        for _ in range(_TRIES):
            digest = await self._store.world_digest(world_id)
            held = self._held.get(world_id)
            if held is not None and held.digest == digest:
                return held
            value = None if digest is None else await self._load_stored_pack(world_id, digest)
            if digest is not None and value is not None:
                return self._cache_pack(await run_off_loop(_pack_from_json, world_id, digest, value))
            if digest == await self._store.world_digest(world_id):
                break
        if digest in (None, BARE_DIGEST):
            return build_bare_world(world_id)
        raise WorldUnavailableError(world_id, "the store has none")

    async def _load_stored_pack(self, world_id: str, digest: str) -> Mapping[str, Any] | None:
        try:
            return await self._store.pack(world_id, digest)
        except DamagedRecordError as error:
            raise WorldUnavailableError(
                world_id, f"what the store holds of it cannot be read ({error.reason})"
            ) from error
        except CodecError as error:
            raise WorldUnavailableError(world_id, f"what the store holds of it cannot be read ({error})") from error

    def _cache_pack(self, world: WorldPack) -> WorldPack:
        self._held.pop(world.world_id, None)
        self._held[world.world_id] = world
        for old in list(self._held)[:-_MOST_HELD]:
            del self._held[old]
        return world


def _pack_to_json(world: WorldPack) -> tuple[WorldPack, dict[str, Any] | None]:
    """Return a pack with its templates, and its stored form; None for a bare world."""
    if world == build_bare_world(world.world_id):
        return world, None
    whole = with_templates(world)
    return whole, pack_to_json(whole)


def _pack_from_json(world_id: str, digest: str, value: Mapping[str, Any]) -> WorldPack:
    try:
        world = pack_from_json(value)
    except CodecError as error:
        raise WorldUnavailableError(world_id, f"what the store holds of it cannot be read ({error})") from error
    if (world.world_id, world.digest) != (world_id, digest):
        raise WorldUnavailableError(world_id, f"what the store holds under its name is of world {world.world_id!r}")
    return world
