"""Reads profiles: the file `profiles/<id>.yaml` below a template root describes a kind of agent.

A profile states the template and the layout of the prompts, the form of the conversation in them, and how replies are read. All
words that depend on the kind of agent are in the templates, so that the code of the engine has none.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from enum import StrEnum
from functools import lru_cache
from pathlib import Path
from typing import Any

from filament import PayloadError, load_yaml
from jacquard.core.errors import ConfigError
from jacquard.templating.files import TemplateRoot
from mnemosyne.schema.world import BARE_DIGEST, PlannerRules, WorldPack
from mnemosyne.values import dataclass

FOLDER = "profiles"
BOUNDARY_CHARS = 12
AUTO = "auto"
PROFILE = "profile"
"""Key in the metadata of a session's document. Its value is the id of the profile with which the session was started."""
STORY_ID, ASSISTANT_ID = "story", "assistant"
_MOST_PARENTS = 8
_TEXTS = ("layout", "template")
_KEYS = ("id", "title", "extends", "layout", "template", "messages", "reply", "speakers")


class MessageForm(StrEnum):
    """Form of messages in a prompt. ESCAPED: as escaped text in the markup. AS_WRITTEN: exactly as written."""

    ESCAPED = "escaped"
    AS_WRITTEN = "as_written"


class ReplyForm(StrEnum):
    """Form of a reply. ELEMENTS: markup whose elements can change the state. TEXT: text that is stored unchanged."""

    ELEMENTS = "elements"
    TEXT = "text"


class SpeakerNames(StrEnum):
    """Rule for showing the name of a speaker before a message.

    NAMED: every speaker except the two parties of the world is named. SEVERAL: speakers are named only if several
    people speak.
    """

    NAMED = "named"
    SEVERAL = "several"


_CHOICES: Mapping[str, type[StrEnum]] = {"messages": MessageForm, "reply": ReplyForm, "speakers": SpeakerNames}


@dataclass(frozen=True, kw_only=True, slots=True)
class Profile:
    """Properties of one kind of agent. The defaults are those of a game or a story."""

    profile_id: str = STORY_ID
    layout: str = "classic"
    template: str = "chat"
    messages: MessageForm = MessageForm.ESCAPED
    reply: ReplyForm = ReplyForm.ELEMENTS
    speakers: SpeakerNames = SpeakerNames.NAMED

    def boundary_of(self, session_id: str) -> str:
        """Return the boundary (a mark around texts that are shown exactly as written) of a session. Return '' if texts
        are escaped instead.
        """
        return session_boundary(session_id) if self.messages is MessageForm.AS_WRITTEN else ""


STORY = Profile()


def session_boundary(session_id: str) -> str:
    """Return the boundary of a session: the mark around texts that a prompt shows exactly as written.

    The boundary is the same in all turns of the session. It is not a secret: around a text that contains the boundary, another
    mark is used (`filament.choose_boundary`), so that no text can end its own element.
    """
    return hashlib.sha256(b"boundary\0" + session_id.encode("utf-8", "surrogatepass")).hexdigest()[:BOUNDARY_CHARS]


def find_profile_id(setting: str, world: WorldPack) -> str:
    """Return the id of the profile that the value `setting` of the configuration means.

    `auto` means the profile that the world's pack names, and `story` if the pack names none. In a world without a pack, `auto`
    means `assistant`. Any other value is the id of a profile and is returned unchanged.
    """
    if setting != AUTO:
        return setting
    return world.profile or (ASSISTANT_ID if world.digest == BARE_DIGEST else STORY_ID)


def load_profile(profile_id: str, roots: Sequence[TemplateRoot]) -> Profile:
    """Return the profile `profile_id` from the first of `roots` that has its file. The function reads files, so call it
    off the event loop.

    Raises ConfigError if no root has the file, if the file is not valid, or if the profiles that it extends are missing or
    extend each other.
    """
    text = _find_text(profile_id, roots)
    if text is None:
        known = sorted({name for root in roots for name in _names(root)})
        raise ConfigError(f"There is no profile {profile_id!r}. Known profiles: {', '.join(known)}.")
    plain = _read(profile_id, text)
    for _ in range(_MOST_PARENTS):
        parent = plain.get("extends")
        if parent is None:
            return _profile_of(profile_id, plain)
        above = _find_text(parent, roots)
        if above is None:
            raise ConfigError(f"profiles/{profile_id}.yaml: extends: there is no profile {parent!r}.")
        plain = {**_read(parent, above), **{key: value for key, value in plain.items() if key != "extends"}}
    raise ConfigError(f"profiles/{profile_id}.yaml: extends: the profiles extend each other.")


def with_profile(world: WorldPack, profile: Profile) -> WorldPack:
    """Return `world` with the profile's template as default template. A world whose pack chooses templates is unchanged."""
    rules = world.planner
    usual = PlannerRules()
    if (
        rules.templates
        or rules.default_template != usual.default_template
        or profile.template == rules.default_template
    ):
        return world
    return replace(world, planner=replace(rules, default_template=profile.template))


def _names(root: TemplateRoot) -> set[str]:
    if isinstance(root, Path):
        return {path.stem for path in (root / FOLDER).glob("*.yaml")}
    start = f"{FOLDER}/"
    return {name.removeprefix(start).removesuffix(".yaml") for name, _ in root.texts if name.startswith(start)}


def _find_text(profile_id: str, roots: Sequence[TemplateRoot]) -> str | None:
    file = f"{FOLDER}/{profile_id}.yaml"
    for root in roots:
        # Only listed names are opened, so that no name leads out of the folder.
        if profile_id not in _names(root):
            continue
        if not isinstance(root, Path):
            return root.text(file)
        try:
            return (root / file).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"{file}: {error}") from error
    return None


@lru_cache(maxsize=64)
def _read(profile_id: str, text: str) -> Mapping[str, Any]:
    """Return the checked fields of one file."""
    file = f"profiles/{profile_id}.yaml"
    try:
        plain = load_yaml(text)
    except PayloadError as error:
        raise ConfigError(f"{file}: {error}") from error
    if not isinstance(plain, dict):
        raise ConfigError(f"{file}: a profile is a mapping with `id`, `extends`, `layout`, `template` and others.")
    for key, value in plain.items():
        if key not in _KEYS:
            raise ConfigError(f"{file}: unknown key {key!r}; known: {', '.join(_KEYS)}.")
        if key in (*_TEXTS, "id", "extends") and not (isinstance(value, str) and value):
            raise ConfigError(f"{file}: {key}: must be a name.")
        if (kind := _CHOICES.get(key)) is not None and value not in [choice.value for choice in kind]:
            raise ConfigError(f"{file}: {key}: must be one of {', '.join(choice.value for choice in kind)}.")
    if plain.get("id") != profile_id:
        raise ConfigError(f"{file}: id: must be {profile_id!r}, the name of the file.")
    return plain


def _profile_of(profile_id: str, plain: Mapping[str, Any]) -> Profile:
    return Profile(
        profile_id=profile_id,
        layout=plain.get("layout", STORY.layout),
        template=plain.get("template", STORY.template),
        messages=MessageForm(plain.get("messages", STORY.messages)),
        reply=ReplyForm(plain.get("reply", STORY.reply)),
        speakers=SpeakerNames(plain.get("speakers", STORY.speakers)),
    )
