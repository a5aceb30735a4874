"""Markdown tables of a comparison, and a page that is written again with them: no figure of the page is typed."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.rivals.figures import ratio
from benchmarks.rivals.names import OURS
from jacquard.core.sentences.pages import read_page_texts, translate_page
from mnemosyne.files import write_file

Row = tuple[str, ...]
_TABLE = re.compile(r"<!-- table: ([^>]+?) -->\n(.*?)<!-- end -->", re.DOTALL)
_SMALL, _LARGE = "1000", "100000"


def write_page(page: Path, figures: Mapping[str, Any]) -> list[str]:
    """Write a page again with the tables of a run, and return the names of its tables that the run does not have.

    A page of `docs/en` has its tables in its Chinese twin too.
    """
    made, missing = make_tables(figures), list[str]()

    def renew(found: re.Match[str]) -> str:
        if found[1] not in made:
            missing.append(found[1])
            return found[0]
        return f"<!-- table: {found[1]} -->\n{made[found[1]]}<!-- end -->"

    text = _TABLE.sub(renew, page.read_text(encoding="utf-8"))
    write_file(page, text)
    twin = page.parent.parent / "zh" / page.name
    if page.parent.name == "en" and twin.exists():
        write_file(twin, translate_tables(text, twin.read_text(encoding="utf-8")))
    return missing


def translate_tables(english: str, chinese: str) -> str:
    """Return the text of a Chinese page with the tables of its English twin, their cells in Chinese (`page.toml`)."""
    texts = read_page_texts([Path(__file__).with_suffix(".toml")])
    tables = dict(_TABLE.findall(english))

    def translate(found: re.Match[str]) -> str:
        return f"<!-- table: {found[1]} -->\n{translate_page(tables[found[1]], texts)}<!-- end -->"

    return _TABLE.sub(translate, chinese)


def make_tables(figures: Mapping[str, Any]) -> dict[str, str]:
    """Return every table of a run by its name: `machine`, `aims`, and for each setup `turns SETUP SIZE`, `recall SETUP SIZE`,
    `place SETUP`, `quality SETUP` and `rate SETUP`.
    """
    found = {"machine": _machine(figures), "aims": _aims(figures["setups"])}
    for name, setup in figures["setups"].items():
        for size, each in setup["sizes"].items():
            found[f"recall {name} {size}"] = _recall(each["stacks"])
            if each["played"]:
                found[f"turns {name} {size}"] = _turns(each["played"], each["stacks"])
        if setup["turns"]:
            found[f"place {name}"] = _place(setup["turns"], setup["memory_mb"])
            found[f"quality {name}"] = _quality(setup["quality"])
        if setup["rate"]:
            found[f"rate {name}"] = _rate(setup["rate"])
    return found


def _machine(figures: Mapping[str, Any]) -> str:
    where, load, config = figures["machine"], figures["load"], figures["config"]
    packages = {name: found for each in figures["stacks"].values() for name, found in each["packages"].items()}
    packages.update({name: figures["versions"][name] for name in ("torch",) if name in figures["versions"]})
    return _table(
        ("what", "in this run"),
        [
            ("processor", f"{where['cpu']}, {where['cores']} cores, {where['memory_gb']} GB"),
            ("interpreter", where["python"]),
            ("load of the machine, before and after", f"{load['before']}, {load['after']}"),
            ("model", f"`{config['embedder']}`"),
            ("labelled set", _name_set(config)),
            ("packages", ", ".join(f"{name} {found}" for name, found in sorted(packages.items()))),
            ("left out", "; ".join(sorted(_left_out(figures))) or "nothing"),
            ("addresses beyond this machine", ", ".join(sorted(figures["network"])) or "none"),
        ],
    )


def _name_set(config: Mapping[str, Any]) -> str:
    if config["data"] is None:
        return "none"
    session = f", `{config['session']}`" if config["session"] else ""
    return f"{config['data']['name']}{session}, {config['queries']} queries"


def _left_out(figures: Mapping[str, Any]) -> set[str]:
    return {*figures["left_out"], *(what for setup in figures["setups"].values() for what in setup["left_out"])}


def _turns(played: Mapping[str, Any], stacks: Mapping[str, Any]) -> str:
    ours = played.get(OURS, {})
    rows = []
    for name, each in played.items():
        real, at_once = each.get("real"), each.get("at_once")
        if real is None or at_once is None:
            continue
        rows.append(
            (
                name,
                _pair(real, "ms"),
                _times(real["ms_p50"], ours.get("real", {}).get("ms_p50")),
                f"{real['processor_ms_p50']:.1f}",
                _times(real["processor_ms_p50"], ours.get("real", {}).get("processor_ms_p50")),
                f"{each['commit_ms_p50']:.1f}",
                f"{each['commit_behind_ms_p50']:.1f}",
                f"{each['whole_ms_p50']:.1f}",
                _times(each["whole_ms_p50"], ours.get("whole_ms_p50")),
                f"{each['whole_processor_ms_p50']:.1f}",
                _times(each["whole_processor_ms_p50"], ours.get("whole_processor_ms_p50")),
                f"{at_once['ms_p50']:.1f}",
                f"{each['real_to_fixed_processor']:.2f}" if each.get("real_to_fixed_processor") else "-",
                f"{stacks[name]['memory_mb']:.0f}",
            )
        )
    heads = ("stack", "real turn ms p50 (p95)", "times ours", "processor ms", "times ours", "commit ms", "behind ms")
    more = (
        "turn and commit ms",
        "times ours",
        "all, processor ms",
        "times ours",
        "right after ms",
        "real to one place",
    )
    return _table((*heads, *more, "MB"), rows)


def _recall(stacks: Mapping[str, Any]) -> str:
    ours = (stacks.get(OURS, {}).get("recall") or {}).get("ms_p50")
    rows = [
        (
            name,
            _pair(each["recall"], "ms"),
            _times(each["recall"]["ms_p50"], ours),
            f"{each['recall']['processor_ms_p50']:.1f}",
            f"{each['index_seconds']:.1f}",
            f"{each['memory_mb']:.0f}",
        )
        for name, each in stacks.items()
        if each["recall"] is not None
    ]
    return _table(("stack", "recall ms p50 (p95)", "times ours", "processor ms", "indexing s", "MB"), rows)


def _place(turns: Mapping[str, Any], memory_mb: Mapping[str, float]) -> str:
    ours = turns.get(OURS, {})
    rows = [
        (
            name,
            _pair(each, "ms"),
            _times(each["ms_p50"], ours.get("ms_p50")),
            _pair(each, "beyond_ms"),
            f"{each['embed_ms_p50']:.1f}",
            f"{each['processor_ms_p50']:.1f}",
            _times(each["processor_ms_p50"], ours.get("processor_ms_p50")),
            f"{memory_mb.get(name, 0.0):.0f}",
        )
        for name, each in turns.items()
    ]
    heads = (
        "stack",
        "turn ms p50 (p95)",
        "times ours",
        "beyond embedding",
        "embedding",
        "processor ms",
        "times ours",
        "MB",
    )
    return _table(heads, rows)


def _quality(quality: Mapping[str, Any]) -> str:
    names = {
        "recall@5": "recall@5",
        "ndcg@5": "ndcg@5",
        "recall@50": "recall@50",
        "recall@250tok": "250 tok",
        "recall@500tok": "500 tok",
        "recall@1000tok": "1,000 tok",
        "recall@2000tok": "2,000 tok",
        "prompt_recall@5": "five in the prompt",
    }
    rows = [
        (name, *(f"{100 * each[key]:.1f}" for key in names), f"{each['prompt_tokens']:.0f}")
        for name, each in quality.items()
    ]
    return _table(("stack", *names.values(), "prompt tokens"), rows)


def _rate(rates: Mapping[str, Any]) -> str:
    rows = [
        (
            name,
            f"{each['documents_a_second']:.0f}",
            f"{each['bare_documents_a_second']:.0f}",
            f"{each['share_of_bare']:.2f}",
        )
        for name, each in rates.items()
    ]
    return _table(("stack", "documents a second", "the model alone", "share"), rows)


def _aims(setups: Mapping[str, Any]) -> str:
    """Return each aim with the figure of this run; aims of parts that were not run are left out."""
    rows = list[Row]()
    for what, least, setup, size, names in (
        ("real turn as shipped, LangChain", 1.2, "shipped", _SMALL, ("langchain",)),
        ("real turn as shipped, LlamaIndex", 1.2, "shipped", _SMALL, ("llamaindex",)),
        ("with a durable session, the fastest", 1.3, "durable", _SMALL, ()),
        ("one encoder, the fastest framework", 0.65, "one-encoder", _SMALL, ()),
        ("at 100,000 entries, the fastest framework", 1.3, "one-encoder", _LARGE, ()),
    ):
        played = setups.get(setup, {}).get("sizes", {}).get(size, {}).get("played", {})
        found = _nearest_rival(played, names)
        if found is not None:
            name, times = found
            rows.append((f"{what}: times ours", f"≥ {least}", f"{times:.2f} ({name})", _met(times >= least)))
    for what, most, setup, size, read in _OWN_AIMS:
        each = setups.get(setup, {}).get("sizes", {}).get(size)
        value = None if each is None else read(each)
        if value is not None:
            rows.append((what, f"≤ {most} ms", f"{value:.1f} ms", _met(value <= most)))
    return _table(("aim", "wanted", "in this run", "met"), rows)


def _own(kind: str, name: str) -> Callable[[Mapping[str, Any]], float | None]:
    def read(size: Mapping[str, Any]) -> float | None:
        part = size["stacks"] if kind == "recall" else size["played"]
        found = (part.get(OURS, {}).get(kind) or {}).get(name)
        return None if found is None else float(found)

    return read


_OWN_AIMS = (
    ("recall without embedding at 1,000", 2.5, "one-encoder", _SMALL, _own("recall", "ms_p50")),
    ("recall without embedding at 100,000, p95", 10, "one-encoder", _LARGE, _own("recall", "ms_p95")),
    ("a turn right after a commit, 1,000 entries", 30, "shipped", _SMALL, _own("at_once", "ms_p50")),
)


def _nearest_rival(played: Mapping[str, Any], names: Sequence[str]) -> tuple[str, float] | None:
    """Return the fastest framework of `names` (of all, if empty) and how many times as long as ours its real turn takes."""
    ours = (played.get(OURS, {}).get("real") or {}).get("ms_p50")
    frameworks = [
        name for name in played if name not in (OURS, "by-hand", "plain-vector") and (not names or name in names)
    ]
    times = [(played[name]["real"]["ms_p50"], name) for name in frameworks if played[name].get("real")]
    if not times or not ours:
        return None
    best, name = min(times)
    return name, best / ours


def _met(is_met: bool) -> str:
    return "yes" if is_met else "no"


def _pair(found: Mapping[str, Any], name: str) -> str:
    return f"{found[f'{name}_p50']:.1f} ({found[f'{name}_p95']:.1f})"


def _times(theirs: float, ours: float | None) -> str:
    found = None if ours is None else ratio(theirs, ours)
    return "-" if found is None else f"{found:.2f}"


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "".join(f"| {' | '.join(str(cell).replace('|', '/') for cell in line)} |\n" for line in lines)
