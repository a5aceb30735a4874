"""Provides the options of commands that embed many texts: the engine that embeds the texts, and the number of workers."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from jacquard.wiring.parts.embedder import EmbeddingWorkers


class Engine(StrEnum):
    """Distributed engines that embed texts instead of this process."""

    RAY = "ray"


EngineOption = Annotated[
    Engine | None,
    typer.Option("--engine", metavar="ray", help="Let workers of Ray embed. [this process embeds]"),
]
WorkersOption = Annotated[
    int | None,
    typer.Option(
        "--workers", metavar="N", min=1, help="How many workers embed at a time. [as there are processors here]"
    ),
]
AddressOption = Annotated[
    str | None,
    typer.Option("--address", metavar="HOST:PORT", help="A Ray cluster that is running. [workers on this machine]"),
]


def embedding_workers(engine: Engine | None, workers: int | None, address: str | None) -> EmbeddingWorkers | None:
    """Return the workers that the options name. Return None if this process embeds the texts itself.

    Raises BadParameter (exit code 2) if `workers` or `address` is given without `engine`.
    """
    if engine is None:
        if workers is not None or address is not None:
            raise typer.BadParameter("--workers and --address need --engine ray")
        return None
    return EmbeddingWorkers(engine=engine.value, workers=workers, address=address)
