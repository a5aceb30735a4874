"""The lookup of plugins: entry points of distributions that stand in a folder of the search path."""

from __future__ import annotations

import sys

import pytest

from mnemosyne import (
    CorpusError,
    StoreUnavailableError,
    open_store,
)
from mnemosyne.core.errors import (
    PluginError,
)
from mnemosyne.plugins import (
    EMBEDDERS,
    IMPORTERS,
    STORES,
    TOKEN_ESTIMATORS,
    find_plugins,
    open_plugin,
    plugin_names,
    split_name,
)
from mnemosyne.stores.locate import locate_store


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Return what puts a distribution with one module and entry points of one group into a folder of the search path."""
    monkeypatch.syspath_prepend(str(tmp_path))

    def put(distribution: str, group: str, entries: dict[str, str], code: str = "") -> None:
        info = tmp_path / f"{distribution}-0.3.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 0.3\n", encoding="utf-8")
        lines = [f"[{group}]", *(f"{name} = {value}" for name, value in entries.items())]
        (info / "entry_points.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
        (tmp_path / f"{distribution}_module.py").write_text(code, encoding="utf-8")

    yield put
    for name in [name for name in sys.modules if name.endswith("_module") and name.startswith("plug")]:
        del sys.modules[name]


COUNTER = """
class Counter:
    name = "words"
    def __init__(self, argument, *, model): self.argument, self.model = argument, model
    def estimate(self, text): return len(text.split())
"""


def test_a_plugin_is_found_and_gets_its_argument(install):
    install("plug_a", TOKEN_ESTIMATORS.group, {"words": "plug_a_module:Counter"}, COUNTER)
    counter = open_plugin(TOKEN_ESTIMATORS, "words", "x:y", model="big")
    assert (counter.argument, counter.model, counter.estimate("a b c")) == ("x:y", "big", 3)
    assert plugin_names(TOKEN_ESTIMATORS) == ("words",)


def test_looking_imports_nothing_and_only_the_named_plugin_is_imported(install):
    install("plug_b", TOKEN_ESTIMATORS.group, {"other": "plug_b_module:Counter"}, "raise SystemExit('imported')")
    install("plug_c", TOKEN_ESTIMATORS.group, {"words": "plug_c_module:Counter"}, COUNTER)
    assert [plugin.name for plugin in find_plugins(TOKEN_ESTIMATORS)] == ["other", "words"]
    assert not {"plug_b_module", "plug_c_module"} & set(sys.modules)
    open_plugin(TOKEN_ESTIMATORS, "words", "", model=None)
    assert "plug_b_module" not in sys.modules


def test_an_unknown_name_lists_what_there_is_and_how_a_plugin_is_installed(install):
    install("plug_d", TOKEN_ESTIMATORS.group, {"words": "plug_d_module:Counter"}, COUNTER)
    with pytest.raises(PluginError) as failure:
        open_plugin(TOKEN_ESTIMATORS, "word", "", model=None)
    told = str(failure.value)
    assert "token_estimator: there is no token estimator 'word'; known: estimate, tiktoken, tokenizer, words." in told
    assert "'jacquard.token_estimators'" in told
    assert "docs/en/plugins.md" in told


@pytest.mark.parametrize(
    ("code", "told"),
    [
        (
            "import nothing_of_that_name",
            r"cannot be loaded from plug_e_module:Counter \(ModuleNotFoundError: No module",
        ),
        ("", r"cannot be loaded from plug_e_module:Counter \(AttributeError: "),
        ("def broken(:", r"cannot be loaded from plug_e_module:Counter \(SyntaxError: "),
        ("Counter = 3", "is int, but must be a TokenEstimatorFactory"),
        ("def Counter(argument, *, model): raise OSError('no file')", r"cannot be opened \(OSError: no file\)"),
        ("def Counter(): pass", r"cannot be opened \(TypeError: "),
        ("def Counter(argument, *, model): return object()", "is not a TokenEstimator: it lacks estimate, name"),
    ],
)
def test_a_broken_plugin_is_one_sentence_with_its_distribution(install, code, told):
    install("plug_e", TOKEN_ESTIMATORS.group, {"words": "plug_e_module:Counter"}, code)
    with pytest.raises(PluginError, match=told) as failure:
        open_plugin(TOKEN_ESTIMATORS, "words", "", model=None)
    assert "the token estimator 'words' of the plugin plug_e 0.3" in str(failure.value)
    assert "Update plug_e with pip, or uninstall it." in str(failure.value)
    assert "\n" not in str(failure.value)


def test_an_error_of_our_own_kind_passes_through(install):
    code = "from mnemosyne import CorpusError\ndef read(argument): raise CorpusError('no such dialect')"
    install("plug_f", IMPORTERS.group, {"talk": "plug_f_module:read"}, code)
    with pytest.raises(CorpusError, match="no such dialect"):
        open_plugin(IMPORTERS, "talk", "")


def test_a_name_of_two_plugins_is_an_error_that_names_both(install):
    install("plug_g", EMBEDDERS.group, {"twin": "plug_g_module:one"})
    install("plug_h", EMBEDDERS.group, {"twin": "plug_h_module:two"})
    with pytest.raises(
        PluginError, match=r"'twin' is provided by several plugins: plug_g, plug_h\. Uninstall all but one"
    ):
        open_plugin(EMBEDDERS, "twin", "")


def test_a_name_of_a_built_in_part_stays_its_own(install):
    install("plug_i", STORES.group, {"memory": "plug_i_module:open"}, "raise SystemExit('imported')")
    assert plugin_names(STORES) == ()
    assert type(open_store("memory:")).__name__ == "MemoryStore"
    assert [plugin.distribution for plugin in find_plugins(STORES)] == ["plug_i"]


def test_the_store_of_a_plugin_gets_its_whole_address_and_an_index_on_this_host(install):
    code = "from mnemosyne import MemoryStore\nseen = []\n"
    code += "def open(address, *, tenant, create):\n    seen.append((address, tenant, create))\n    return MemoryStore(tenant)\n"
    install("plug_j", STORES.group, {"shelf": "plug_j_module:open"}, code)
    address = "shelf://ann:pass@host/x"
    location = locate_store(address, "crew")
    assert (location.kind, location.shown) == ("plugin", "shelf://ann:***@host/x")
    assert location.index is not None
    assert location.index.parent.name.startswith("shelf-")
    assert "pass" not in repr(location)
    assert open_store(address, tenant="crew", create=False).tenant == "crew"
    assert sys.modules["plug_j_module"].seen == [(address, "crew", False)]


def test_a_store_that_cannot_be_opened_is_told_without_its_password(install):
    code = "def open(address, *, tenant, create): raise ValueError(f'cannot reach {address}')"
    install("plug_k", STORES.group, {"shelf": "plug_k_module:open"}, code)
    with pytest.raises(StoreUnavailableError) as failure:
        open_store("shelf://ann:hushhush@host/x")
    assert "plug_k 0.3" in str(failure.value)
    assert "hushhush" not in str(failure.value)


def test_an_address_of_no_known_form_names_the_forms_of_plugins(install):
    with pytest.raises(
        StoreUnavailableError, match=r"Plugins add other forms \(see docs/en/plugins\.md\): none is installed"
    ):
        open_store("shelf:x")
    install("plug_l", STORES.group, {"rack": "plug_l_module:open"})
    with pytest.raises(StoreUnavailableError, match=r"Plugins add other forms \(see docs/en/plugins\.md\): rack:…"):
        open_store("shelf:x")


@pytest.mark.parametrize(
    ("written", "parts"),
    [
        ("a", ("a", "")),
        ("a:", ("a", "")),
        ("a:b", ("a", "b")),
        ("a:http://h:1/x", ("a", "http://h:1/x")),
        ("", ("", "")),
    ],
)
def test_a_name_ends_at_the_first_colon(written, parts):
    assert split_name(written) == parts
