"""The options of `python -m evals run`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

DataOption = Annotated[Path, typer.Option("--data", metavar="DIR", help="The set: corpus.jsonl and queries.jsonl.")]
RetrieverOption = Annotated[
    str,
    typer.Option(
        "--retriever",
        metavar="NAME",
        help="`hybrid` (all arms of recall), `vector`, `bm25`, `rrf`, `rank-bm25`, a plugin, or your own as `module:attribute`.",
    ),
]
SelectorOption = Annotated[
    str,
    typer.Option(
        "--selector",
        metavar="NAME",
        help="`heuristic`, `flash`, `rerank`, `oracle` (it knows the labels and bounds what any selector can do), a plugin, or "
        "your own as `module:attribute`.",
    ),
]
ModelOption = Annotated[
    str | None,
    typer.Option(
        "--model", metavar="NAME", help="The model of `--selector flash` or of a plugin, as litellm names it."
    ),
]
NoRationaleOption = Annotated[
    bool, typer.Option("--no-rationale", help="`--selector flash` does not ask for a sentence that states why.")
]
ApiBaseOption = Annotated[str | None, typer.Option("--api-base", metavar="URL", help="Where that model is served.")]
RerankerOption = Annotated[
    str | None, typer.Option("--reranker", metavar="DIR", help="The cross-encoder of `--selector rerank`.")
]
EmbedderOption = Annotated[
    str,
    typer.Option(
        "--embedder", metavar="NAME", help="`auto`, `none`, a package or folder with a model, or a remote one."
    ),
]
LimitOption = Annotated[
    int | None, typer.Option("--limit", min=1, metavar="N", help="At most N queries, spread evenly over the file.")
]
RecallLimitOption = Annotated[
    int, typer.Option("--k", min=1, metavar="N", help="How many candidates recall may bring.")
]
FloorOption = Annotated[
    float,
    typer.Option(
        "--floor",
        min=0.0,
        max=1.0,
        metavar="P",
        help="The least probability of relevance of a memory that `heuristic` selects.",
    ),
]
CategoryOption = Annotated[
    str, typer.Option("--by", metavar="FIELD", help="The field of a query that names its category.")
]
CorpusOption = Annotated[
    list[str] | None, typer.Option("--corpus", metavar="FILE", help="Corpus file(s) of the set; may be repeated.")
]
LabelsOption = Annotated[
    list[str] | None,
    typer.Option("--labels", metavar="FIELD", help="Field(s) of a query with its labels; may be repeated."),
]
CacheOption = Annotated[Path, typer.Option("--cache", metavar="DIR", help="Where vectors are kept from run to run.")]
JsonFileOption = Annotated[
    Path | None,
    typer.Option("--json", metavar="FILE", help="Write the report as JSON too (`-`: to standard output, alone)."),
]
RunFileOption = Annotated[
    Path | None,
    typer.Option("--run", metavar="FILE", help="Write the rankings as a run file of trec_eval too."),
]
QrelsOption = Annotated[
    Path | None, typer.Option("--qrels", metavar="FILE", help="Write the labels as a qrels file of trec_eval too.")
]
CsvOption = Annotated[Path | None, typer.Option("--csv", metavar="FILE", help="Write a table as CSV too.")]
StoreOption = Annotated[
    str | None,
    typer.Option(
        "--store",
        metavar="URL",
        help="The store with the sessions, as `jacquard` names it. [service.store of the environment, else .jacquard]",
    ),
]
