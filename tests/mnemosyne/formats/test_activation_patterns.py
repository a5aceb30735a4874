"""Keys of world info that are regular expressions of JavaScript."""

from __future__ import annotations

import pytest

from mnemosyne.world.activation.keys import find_key, read_pattern


@pytest.mark.parametrize(
    ("key", "text"),
    [
        (r"/la\mp/", "a lamp"),
        (r"/\cA/", "a\x01b"),
        ("/fog{,2}/", "fog{,2}"),
        ("/fog{e<=1}/", "fog{e<=1}"),
        (r"/\p{Script=Han}+/u", "the 灯塔"),
        (r"/\u{706f}塔/u", "灯塔"),
        (r"/\s灯/", "a\ufeff灯"),
        (r"/[\S]灯/", "a灯"),
        (r"/(?<lamp>灯)\k<lamp>/", "灯灯"),
        ("/[^]塔/", "灯\n塔"),
        ("/lamp$/m", "the lamp\nis lit"),
    ],
)
def test_a_pattern_means_what_it_means_in_javascript(key, text):
    assert find_key(key, text, text.lower(), case_sensitive=False, whole_words=False)


@pytest.mark.parametrize(
    ("key", "text"),
    [(r"/\s灯/", "a\x1c灯"), (r"/\h/", "a b"), ("/.塔/", "灯\u2028塔"), (r"/\p{L}/", "a"), ("/lamp$/", "lamp\n")],
)
def test_what_python_alone_would_find(key, text):
    assert not find_key(key, text, text.lower(), case_sensitive=False, whole_words=False)


@pytest.mark.parametrize(
    "key",
    [
        "/(?i)lamp/",
        "/(?>a)/",
        "/(?P<a>x)/",
        "/(?#x)lamp/",
        "/a++/",
        "/a{2}*/",
        r"/\e/u",
        "/a{/u",
        "/(/",
        "/a/b/",
        "/a/gg",
    ],
)
def test_what_javascript_refuses_is_a_plain_text(key):
    assert read_pattern(key) is None
    assert find_key(key, f"see {key} here", f"see {key} here", case_sensitive=True, whole_words=False)
