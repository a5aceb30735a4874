"""Reads and writes the files of snapshots, in a folder or in object storage (`s3://`, `gs://`, `abfss://`).

A snapshot is the published index of a large world. File names are relative to the address of the storage, with `/`. Every call
blocks, so do not call it on the event loop. Object storage is used through pyarrow, which is imported only for it.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import parse_qsl, unquote, urlsplit

from mnemosyne.core.errors import SnapshotStorageError
from mnemosyne.core.masking.addresses import mask_address
from mnemosyne.core.masking.credentials import remember_address
from mnemosyne.core.optional_packages import explain_missing_package
from mnemosyne.files import make_private_folder, write_file

_CHUNK = 4 * 1024 * 1024
_CONNECT_SECONDS, _REQUEST_SECONDS, _TRIES = 3.0, 30.0, 3
_S3_OPTIONS = frozenset({"endpoint_override", "region", "scheme"})
_SCHEMES = ("s3://", "gs://", "gcs://", "abfs://", "abfss://")


class SnapshotStorage(Protocol):
    """Files of snapshots by name. Every method raises SnapshotStorageError if the place cannot be reached, read or
    written.

    1. `put` and `put_bytes` write a whole file or nothing.
    2. `delete` removes everything below a name. An unknown name is not an error.
    """

    shown: str

    def folders(self, name: str) -> tuple[str, ...]:
        """Return the names of the folders in the folder `name`, sorted. The result is empty for an unknown folder."""
        ...

    def read(self, name: str) -> bytes | None:
        """Return the content of a small file, or None if there is no such file."""
        ...

    def chunks(self, name: str) -> Iterator[bytes]:
        """Yield the content of a file in parts."""
        ...

    def put(self, name: str, file: Path) -> None:
        """Write the local file `file` under a name."""
        ...

    def put_bytes(self, name: str, data: bytes) -> None:
        """Write a small file with the content `data`."""
        ...

    def delete(self, name: str) -> None:
        """Remove a folder and everything in it."""
        ...


def open_storage(address: str | Path) -> SnapshotStorage:
    """Return the storage at `address`: a folder, or a bucket with a prefix.

    No file is read yet. Raises SnapshotStorageError if the address cannot be used.
    """
    text = str(address)
    if text.startswith(_SCHEMES):
        return ObjectStorage(text)
    if "://" in text:
        known = ", ".join(_SCHEMES)
        raise SnapshotStorageError(mask_address(text), f"snapshots lie in a folder or below one of {known}")
    return FolderStorage(Path(text).expanduser())


class FolderStorage:
    """Snapshots in a folder, on this machine or on a shared disk."""

    def __init__(self, folder: Path) -> None:
        self._folder, self.shown = folder, str(folder)

    def folders(self, name: str) -> tuple[str, ...]:
        """Return the names of the folders in the folder `name`, sorted; empty for an unknown folder. Raises
        SnapshotStorageError if the storage's own folder does not exist.
        """
        with self._explained():
            folder = self._folder / name
            if not self._folder.is_dir():
                raise SnapshotStorageError(self.shown, "there is no such folder")
            return tuple(sorted(each.name for each in folder.iterdir() if each.is_dir())) if folder.is_dir() else ()

    def read(self, name: str) -> bytes | None:
        """Return the content of a small file, or None if there is no such file."""
        with self._explained():
            file = self._folder / name
            return file.read_bytes() if file.is_file() else None

    def chunks(self, name: str) -> Iterator[bytes]:
        """Yield the content of a file in parts."""
        with self._explained(), (self._folder / name).open("rb") as stream:
            while chunk := stream.read(_CHUNK):
                yield chunk

    def put(self, name: str, file: Path) -> None:
        """Write the local file `file` under a name."""
        with self._explained():
            place = self._folder / name
            make_private_folder(place.parent)
            draft = place.with_name(f".{place.name}.new")
            shutil.copyfile(file, draft)
            draft.replace(place)

    def put_bytes(self, name: str, data: bytes) -> None:
        """Write a small file with the content `data`."""
        with self._explained():
            make_private_folder((self._folder / name).parent)
            write_file(self._folder / name, data)

    def delete(self, name: str) -> None:
        """Remove a folder and everything in it."""
        with self._explained(), suppress(FileNotFoundError):
            shutil.rmtree(self._folder / name)

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise SnapshotStorageError(self.shown, error.strerror or str(error)) from error


class ObjectStorage:
    """Snapshots in object storage. Credentials come from the environment, as pyarrow reads it, or from the address.

    An S3 address may have options: `s3://BUCKET/PREFIX?endpoint_override=HOST:PORT&scheme=http&region=R`.
    """

    def __init__(self, address: str) -> None:
        remember_address(address)
        self.shown = mask_address(address.partition("?")[0])
        self._address = address
        self._opened: tuple[Any, str] | None = None

    def folders(self, name: str) -> tuple[str, ...]:
        """Return the names of the folders in the folder `name`, sorted. The result is empty for an unknown folder."""
        with self._explained():
            system, root = self._open()
            selector = import_module("pyarrow.fs").FileSelector(_below(root, name), allow_not_found=True)
            found = [each for each in system.get_file_info(selector) if each.type.name == "Directory"]
            return tuple(sorted(each.base_name for each in found))

    def read(self, name: str) -> bytes | None:
        """Return the content of a small file, or None if there is no such file."""
        with self._explained():
            system, root = self._open()
            try:
                with system.open_input_stream(_below(root, name)) as stream:
                    return bytes(stream.read())
            except FileNotFoundError:
                return None

    def chunks(self, name: str) -> Iterator[bytes]:
        """Yield the content of a file in parts."""
        with self._explained():
            system, root = self._open()
            with system.open_input_stream(_below(root, name)) as stream:
                while chunk := stream.read(_CHUNK):
                    yield bytes(chunk)

    def put(self, name: str, file: Path) -> None:
        """Write the local file `file` under a name."""
        with self._explained(), file.open("rb") as source:
            system, root = self._open()
            with system.open_output_stream(_below(root, name)) as stream:
                while chunk := source.read(_CHUNK):
                    stream.write(chunk)

    def put_bytes(self, name: str, data: bytes) -> None:
        """Write a small file with the content `data`."""
        with self._explained():
            system, root = self._open()
            with system.open_output_stream(_below(root, name)) as stream:
                stream.write(data)

    def delete(self, name: str) -> None:
        """Remove a folder and everything in it."""
        with self._explained(), suppress(FileNotFoundError):
            system, root = self._open()
            system.delete_dir(_below(root, name))

    def _open(self) -> tuple[Any, str]:
        if self._opened is None:
            systems = import_module("pyarrow.fs")
            is_s3 = self._address.startswith("s3://")
            system, path = _open_s3(systems, self._address) if is_s3 else systems.FileSystem.from_uri(self._address)
            self._opened = (system, path.rstrip("/"))
        return self._opened

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except ModuleNotFoundError as error:
            raise SnapshotStorageError(
                self.shown, explain_missing_package("object storage", "pyarrow", "lance")
            ) from error
        except (OSError, ValueError) as error:
            raise SnapshotStorageError(self.shown, " ".join(str(error).split())[:300]) from error


def _open_s3(systems: Any, address: str) -> tuple[Any, str]:
    """Return the file system and the path of an address, with time limits, which the options of an address cannot give: a host
    must not wait long for a storage that is away.
    """
    parts = urlsplit(address)
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    if unknown := options.keys() - _S3_OPTIONS:
        raise ValueError(f"{', '.join(sorted(unknown))}: no such option; there are {', '.join(sorted(_S3_OPTIONS))}")
    if not parts.hostname:
        raise ValueError("it names no bucket: write s3://BUCKET/PREFIX")
    bucket = parts.netloc.rpartition("@")[2]
    keys = (
        {"access_key": unquote(parts.username), "secret_key": unquote(parts.password or "")} if parts.username else {}
    )
    system = systems.S3FileSystem(
        **keys,
        **options,
        connect_timeout=_CONNECT_SECONDS,
        request_timeout=_REQUEST_SECONDS,
        retry_strategy=systems.AwsStandardS3RetryStrategy(max_attempts=_TRIES),
    )
    return system, f"{bucket}{parts.path}"


def _below(root: str, name: str) -> str:
    return f"{root}/{name}" if name else root
