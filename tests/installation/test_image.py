"""The image of the service, made without an engine: each step of the Dockerfile runs in a root of its own, as written.

A root is the file system of this machine with an empty layer above it (overlay), in which a step changes what it likes. The
interpreter is this machine's, so that `FROM` is the one step that is not made.
"""

from __future__ import annotations

import fnmatch
import json
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from environments import ROOT

DOCKERFILE = ROOT / "deploy" / "Dockerfile"
PASSED = ("PIP_", "SSL_", "REQUESTS_", "http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY")
"""Beginnings of variables that say where this machine finds packages."""
START_SECONDS = 120.0
MOST_BYTES = 800_000_000
"""Maximum size of what the image adds to its base, byte code included."""


def can_overlay():
    mount = "mkdir -p $0/u $0/w $0/m && mount -t overlay overlay -o lowerdir=/,upperdir=$0/u,workdir=$0/w $0/m"
    probe = ["unshare", "--mount", "sh", "-c", mount, f"/tmp/jacquard-overlay-{os.getpid()}"]
    try:
        return subprocess.run(probe, capture_output=True).returncode == 0
    except FileNotFoundError:
        return False
    finally:
        shutil.rmtree(probe[-1], ignore_errors=True)


pytestmark = [
    pytest.mark.full,
    pytest.mark.skipif(not sys.platform.startswith("linux") or not can_overlay(), reason="no root of its own here"),
]


@dataclass(kw_only=True, slots=True)
class Stage:
    """A stage of the build: its root, and the variables, user and folder in which its next step runs."""

    folder: Path
    variables: dict[str, str] = field(default_factory=dict)
    user: str = "0:0"
    place: str = "/"
    start: list[str] = field(default_factory=list)
    arguments: list[str] = field(default_factory=list)
    health: list[str] = field(default_factory=list)

    @property
    def layer(self) -> Path:
        """The files that the stage wrote."""
        return self.folder / "layer"

    def command(self, words: list[str], variables: dict[str, str], running: int | None = None) -> list[str]:
        """Return the command that runs `words` in the root, as the stage's user, in its folder.

        `running` is a process in the root, beside which it runs.
        """
        folder = self.folder
        for name in ("layer", "work", "root"):
            (folder / name).mkdir(parents=True, exist_ok=True)
        mounts = (
            f"mount -t overlay overlay -o lowerdir=/,upperdir={folder}/layer,workdir={folder}/work {folder}/root"
            f" && mount --bind /dev {folder}/root/dev && mount -t proc proc {folder}/root/proc"
        )
        given = {"PATH": f"{sys.base_prefix}/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/tmp", **self.variables}
        given["PATH"] = given["PATH"].replace("$PATH", f"{sys.base_prefix}/bin:/usr/bin:/bin")
        given |= {name: value for name, value in os.environ.items() if name.startswith(PASSED)} | variables
        inner = f"cd {self.place} && exec {shlex.join(words)}"
        chroot = ["chroot", f"--userspec={self.user}", f"{folder}/root", "env", "-i"]
        chroot += [f"{name}={value}" for name, value in given.items()] + ["/bin/sh", "-c", inner]
        if running is not None:
            return ["nsenter", "--mount", "--pid", "--target", str(running), *chroot]
        return ["unshare", "--mount", "--pid", "--fork", "sh", "-c", f"{mounts} && exec {shlex.join(chroot)}"]

    def run(self, *words: str, running: int | None = None, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run `words` in the root and return what came of it."""
        return subprocess.run(self.command([*words], variables, running), capture_output=True, text=True)


def instructions():
    text = re.sub(r"\\\n", " ", "\n".join(line for line in DOCKERFILE.read_text().splitlines() if line[:1] != "#"))
    return [
        (word, rest.strip()) for word, _, rest in (line.partition(" ") for line in text.splitlines() if line.strip())
    ]


def sent_files():
    """Return the files that are sent to the build, relative to the checkout: those that the ignore file lets through."""
    lines = (ROOT / "deploy" / "Dockerfile.dockerignore").read_text().split()
    kept = [line[1:] for line in lines if line[0] == "!"]
    ignored = [line.removeprefix("**/") for line in lines if line.startswith("**/")]
    files = [file for each in kept for file in ((ROOT / each).rglob("*") if (ROOT / each).is_dir() else [ROOT / each])]
    return [
        file.relative_to(ROOT)
        for file in files
        if file.is_file() and not any(fnmatch.fnmatch(part, each) for part in file.parts for each in ignored)
    ]


def copy(stage, stages, words):
    *options, source, target = words.split()
    origin = next((stages[each.removeprefix("--from=")] for each in options if each.startswith("--from=")), None)
    if origin is not None:
        shutil.copytree(origin.layer / source[1:], stage.layer / target[1:], symlinks=True)
        return
    assert source == "."
    for file in sent_files():
        place = stage.layer / stage.place[1:] / target / file
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / file, place)


@pytest.fixture(scope="module")
def image(tmp_path_factory):
    """Build the image step by step; return its last stage."""
    stages, stage = {}, None
    for word, rest in instructions():
        if word == "FROM":
            stage = Stage(folder=tmp_path_factory.mktemp("stage"))
            name = re.search(r" AS (\w+)$", rest)
            stages[name[1] if name else ""] = stage
            # This machine's interpreter may lie in a folder that only root may enter.
            assert stage.run("chmod", "a+x", *map(str, Path(sys.base_prefix).parents)).returncode == 0
        elif word == "RUN":
            done = stage.run("/bin/sh", "-c", rest)
            assert done.returncode == 0, done.stdout + done.stderr
        elif word == "COPY":
            copy(stage, stages, rest)
        elif word == "WORKDIR":
            stage.place = rest
            assert Stage(folder=stage.folder).run("mkdir", "-p", rest).returncode == 0
        elif word == "USER":
            stage.user = rest
        elif word == "ARG":
            stage.variables |= dict([rest.split("=", 1)])
        elif word == "ENV":
            stage.variables |= dict(each.split("=", 1) for each in shlex.split(rest))
        elif word == "HEALTHCHECK":
            stage.health = json.loads(rest[rest.index("[") :])
        elif word in ("ENTRYPOINT", "CMD"):
            setattr(stage, "start" if word == "ENTRYPOINT" else "arguments", json.loads(rest))
        else:
            assert word in ("LABEL", "VOLUME", "EXPOSE"), word
    return stage


def find_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return str(free.getsockname()[1])


def find_child(process):
    """Return the process that `unshare` has started."""
    until = time.monotonic() + START_SECONDS
    while time.monotonic() < until:
        if found := Path(f"/proc/{process}/task/{process}/children").read_text().split():
            return int(found[0])
        time.sleep(0.05)
    raise TimeoutError


ASK = """
import sys, urllib.request
address, token = sys.argv[1:]
asked = urllib.request.Request(address, headers={"Authorization": f"Bearer {token}"})
print(urllib.request.urlopen(asked).read().decode())
"""


def test_the_image_is_small_and_holds_no_sources_and_no_second_pip(image):
    files = [file for file in image.layer.rglob("*") if file.is_file() and not file.is_symlink()]
    assert sum(file.stat().st_size for file in files) < MOST_BYTES
    assert not (image.layer / "src").exists()
    assert not [file for file in files if file.parts[-2:] == ("pip", "__init__.py")]
    assert not [
        file
        for file in (image.layer / "opt").rglob("*")
        if file.stat(follow_symlinks=False).st_mode & 0o022 and not file.is_symlink()
    ]


def test_the_service_of_the_image_answers_to_its_health_check_and_to_a_token(image):
    port = find_port()
    address = f"http://127.0.0.1:{port}"
    settings = {"JACQUARD_SERVICE__PORT": port, "JACQUARD_SERVICE__HOST": "127.0.0.1"}
    made = image.run(*image.start, "operate", "tokens", "create", "--tenant", "me", "--scope", "admin", **settings)
    assert made.returncode == 0, made.stderr
    log = image.folder / "log"
    with log.open("w") as file:
        outer = subprocess.Popen(image.command([*image.start, *image.arguments], settings), stdout=file, stderr=file)
    service = find_child(outer.pid)
    try:
        until = time.monotonic() + START_SECONDS
        while (health := image.run(*image.health, running=service, **settings)).returncode:
            assert outer.poll() is None, log.read_text()
            assert time.monotonic() < until, health.stderr
            time.sleep(0.5)
        for path, answer in (("/api/v1/sessions", "["), ("/metrics", "jacquard_http_requests_total")):
            done = image.run("python", "-c", ASK, address + path, made.stdout.strip(), running=service)
            assert answer in done.stdout, done.stderr
    finally:
        os.kill(service, signal.SIGTERM)
        assert outer.wait(60) == 0, log.read_text()
    owned = [file for file in image.layer.rglob("*") if file.stat(follow_symlinks=False).st_uid == 10001]
    assert {file.relative_to(image.layer).parts[0] for file in owned} <= {"data", "tmp"}
