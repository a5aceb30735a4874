"""Remembers from which folder the pack of each world was loaded, in a small JSON file next to the index.

The packs themselves are in the store. The file is for authors: an author's commands read templates from the folder that
the author edits. All functions of this module read files, so call them off the event loop.
"""

from __future__ import annotations

import json
from pathlib import Path

from jacquard.core.errors import ConfigError
from mnemosyne.core.masking.call_logs import open_log
from mnemosyne.files import make_private_folder, write_file
from mnemosyne.schema.world import WorldPack
from mnemosyne.values import dataclass
from mnemosyne.world import load_world

_log = open_log(__name__)
WORLDS_FILE = "worlds.json"
PACK_FILE = "world.yaml"


@dataclass(frozen=True, kw_only=True, slots=True)
class WorldNotes:
    """Notes of one store on this host. `named` is the pack folder that the current call names (None: no folder)."""

    file: Path
    named: str | Path | None = None

    def load_named(self) -> WorldPack | None:
        """Return the pack in the named folder. Return None if no folder is named. Raises WorldPackError if the pack has
        faults.
        """
        return None if self.named is None else load_world(Path(self.named))

    def find_folder(self, world_id: str) -> Path | None:
        """Return the noted folder of a world. Return None if no folder is noted, or if the folder no longer contains a
        pack.

        Raises ConfigError if the notes file is damaged.
        """
        noted = self._read().get(world_id)
        return Path(noted) if noted is not None and _is_pack(Path(noted)) else None

    def remember(self, world_id: str) -> None:
        """Note the named folder for the world `world_id`.

        A notes file that cannot be read is left unchanged, and a warning is logged.
        """
        if self.named is None:
            return
        folder = str(Path(self.named).resolve())
        try:
            noted = self._read()
        except ConfigError as error:
            _log.warning("%s", error)
            return
        if noted.get(world_id) == folder:
            return
        make_private_folder(self.file.parent)
        write_file(self.file, _json({**noted, world_id: folder}), private=True)

    def _read(self) -> dict[str, str]:
        """Return folders by world id; raises ConfigError with the fault of the file and a remedy."""
        try:
            noted = json.loads(self.file.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise self._build_file_error(f"cannot be read ({error.strerror or error})") from error
        except UnicodeDecodeError as error:
            raise self._build_file_error(f"is not UTF-8 text (byte {error.start + 1})") from error
        except (ValueError, RecursionError) as error:
            raise self._build_file_error(f"is not JSON ({error})") from error
        if not isinstance(noted, dict):
            raise self._build_file_error(
                f"contains {json.dumps(noted)[:40]} in place of a mapping from world ids to folders"
            )
        for world_id, folder in noted.items():
            if not isinstance(folder, str) or "\0" in folder:
                raise self._build_file_error(f"has no folder for world {world_id!r}, but {json.dumps(folder)[:40]}")
        return noted

    def _build_file_error(self, what: str) -> ConfigError:
        return ConfigError(
            f"{self.file} {what}. It only says where packs were named: mend it, or remove it and name each pack again by "
            "--world DIR."
        )


def _is_pack(folder: Path) -> bool:
    try:
        return (folder / PACK_FILE).is_file()
    except OSError:
        return False


def _json(noted: dict[str, str]) -> bytes:
    """Return the notes as indented JSON; a path that UTF-8 cannot encode is escaped."""
    try:
        return json.dumps(noted, ensure_ascii=False, indent=1).encode()
    except UnicodeEncodeError:
        return json.dumps(noted, indent=1).encode()
