"""The compared stacks, the packages that each needs, and the settings that keep each off the network."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version

from evals.errors import SetupError
from mnemosyne.core.optional_packages import explain_missing_package

EXTRA = "rivals"
OURS = "ours"

QUIET = {
    # Haystack sends usage figures from the first run of a pipeline, unless this is set before its import.
    "HAYSTACK_TELEMETRY_ENABLED": "false",
    # LangSmith sends traces only if it is configured to; a user's environment may contain that.
    "LANGSMITH_TRACING": "false",
    "LANGCHAIN_TRACING_V2": "false",
    # mem0 sends events from its import on.
    "MEM0_TELEMETRY": "False",
    "ANONYMIZED_TELEMETRY": "false",
    "DO_NOT_TRACK": "1",
    # Nothing here is fetched: the model lies in a package.
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "TOKENIZERS_PARALLELISM": "false",
    # One thread for each library: two at once on a shared machine are many times slower.
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
}
"""Environment variables of the process of every stack."""


_LANGCHAIN = ("langchain-core", "langchain-classic", "langchain-community", "faiss-cpu", "rank-bm25")
_LLAMAINDEX = ("llama-index-core", "llama-index-retrievers-bm25", "llama-index-vector-stores-faiss", "faiss-cpu")


@dataclass(frozen=True, kw_only=True, slots=True)
class Entrant:
    """A stack: where its class lies, the distributions that it needs, and one line on how it is set up."""

    name: str
    place: str
    needs: tuple[str, ...]
    how: str
    framework: bool = False


ENTRANTS = (
    Entrant(
        name=OURS,
        place="benchmarks.rivals.stacks.ours:Ours",
        needs=(),
        how="prepare_turn and commit, heuristic selector, SQLite on disk, tiered index",
    ),
    Entrant(
        name="langchain",
        place="benchmarks.rivals.stacks.langchain_stack:LangChain",
        needs=_LANGCHAIN,
        how="EnsembleRetriever(BM25Retriever, FAISS), ChatPromptTemplate, trim_messages",
        framework=True,
    ),
    Entrant(
        name="llamaindex",
        place="benchmarks.rivals.stacks.llamaindex_stack:LlamaIndex",
        needs=_LLAMAINDEX,
        how="QueryFusionRetriever(FAISS, bm25s), reciprocal_rerank, ChatMemoryBuffer",
        framework=True,
    ),
    Entrant(
        name="haystack",
        place="benchmarks.rivals.stacks.haystack_stack:Haystack",
        needs=("haystack-ai",),
        how="InMemoryDocumentStore, BM25 and embedding retriever, DocumentJoiner, ChatPromptBuilder",
        framework=True,
    ),
    Entrant(
        name="langchain-sqlite",
        place="benchmarks.rivals.stacks.langchain_durable:LangChainSqlite",
        needs=(*_LANGCHAIN, "SQLAlchemy"),
        how="as langchain, the session in SQLChatMessageHistory on SQLite",
        framework=True,
    ),
    Entrant(
        name="langgraph-sqlite",
        place="benchmarks.rivals.stacks.langchain_durable:LangGraphSqlite",
        needs=(*_LANGCHAIN, "langgraph", "langgraph-checkpoint-sqlite"),
        how="as langchain, the session in the state of a graph, kept by SqliteSaver",
        framework=True,
    ),
    Entrant(
        name="llamaindex-sqlite",
        place="benchmarks.rivals.stacks.llamaindex_durable:LlamaIndexSqlite",
        needs=(*_LLAMAINDEX, "SQLAlchemy", "aiosqlite"),
        how="as llamaindex, Memory over SQLAlchemyChatStore on SQLite",
        framework=True,
    ),
    Entrant(
        name="mem0",
        place="benchmarks.rivals.stacks.mem0_stack:Mem0",
        needs=("mem0ai", "qdrant-client"),
        how="Memory.search over Qdrant in a local folder, added with infer=False",
        framework=True,
    ),
    Entrant(
        name="by-hand",
        place="benchmarks.rivals.stacks.by_hand:ByHand",
        needs=("rank-bm25",),
        how="rank-bm25 and numpy, reciprocal rank fusion",
    ),
    Entrant(
        name="plain-vector",
        place="benchmarks.rivals.stacks.by_hand:PlainVector",
        needs=(),
        how="numpy cosine, top k, as plain memory layers do",
    ),
)
NAMES = tuple(each.name for each in ENTRANTS)

TORCH, ONNX = "sentence-transformers", "onnxruntime"


@dataclass(frozen=True, kw_only=True, slots=True)
class Setup:
    """A row of the comparison: the stacks compared with ours, and the library that embeds for them.

    Ours embeds by onnxruntime in all of them, as it is shipped.
    """

    name: str
    library: str
    stacks: tuple[str, ...]
    how: str


SHIPPED = Setup(
    name="shipped",
    library=TORCH,
    stacks=("langchain", "llamaindex", "haystack", "mem0", "by-hand", "plain-vector"),
    how="each as it is shipped: the others keep the session in memory and embed by sentence-transformers",
)
SETUPS = (
    SHIPPED,
    Setup(
        name="durable",
        library=TORCH,
        stacks=("langchain-sqlite", "langgraph-sqlite", "llamaindex-sqlite"),
        how="the others keep the session in a store that outlives the process, as ours does",
    ),
    Setup(
        name="one-encoder",
        library=ONNX,
        stacks=tuple(name for name in NAMES if name != OURS),
        how="all embed by the same model in the same library, onnxruntime",
    ),
)
SETUP_NAMES = tuple(each.name for each in SETUPS)


def find_setup(name: str) -> Setup:
    """Return a setup by name; SetupError names those there are."""
    for each in SETUPS:
        if each.name == name:
            return each
    raise SetupError(f"There is no setup {name!r}; choose from {', '.join(SETUP_NAMES)}.")


def find_entrant(name: str) -> Entrant:
    """Return an entrant by name; SetupError names those there are."""
    for each in ENTRANTS:
        if each.name == name:
            return each
    raise SetupError(f"There is no stack {name!r}; choose from {', '.join(NAMES)}.")


def find_missing_packages(each: Entrant) -> str | None:
    """Return a sentence that says which packages a stack lacks, or None."""
    missing = [name for name in each.needs if find_version(name) is None]
    if not missing:
        return None
    sentence = explain_missing_package(f"The stack {each.name!r}", ", ".join(missing), f"local,evals,{EXTRA}")
    return f"{sentence} (`make bench` does so in an environment of its own)."


def find_version(name: str) -> str | None:
    """Return the version of a distribution, or None."""
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def choose_entrants(only: Sequence[str]) -> tuple[list[Entrant], dict[str, str]]:
    """Return the stacks to run, and why others are left out.

    Named ones must be installed (SetupError); if none is named, missing ones are left out. Ours is always among them.
    """
    if only:
        named = [find_entrant(name) for name in dict.fromkeys((OURS, *only))]
        for each in named:
            if (fault := find_missing_packages(each)) is not None:
                raise SetupError(fault)
        return named, {}
    faults = {each.name: fault for each in ENTRANTS if (fault := find_missing_packages(each)) is not None}
    return [each for each in ENTRANTS if each.name not in faults], faults
