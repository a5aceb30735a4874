"""Cards and the files that carry them, as small as they can be."""

from __future__ import annotations

import base64
import io
import json
import struct
import zipfile
import zlib

from hypothesis import strategies as st

SIGNATURE = b"\x89PNG\r\n\x1a\n"
END = b"\x00\x00\x00\x00IEND\xaeB`\x82"


def v2_card(**data):
    texts = {
        "name": "Mara",
        "description": "Keeper of the north lighthouse.",
        "personality": "dry, patient",
        "scenario": "A storm is coming.",
        "first_mes": "You are late, {{user}}.",
        "mes_example": "<START>\n{{user}}: Hello\n{{char}}: Shut the door.",
        "creator_notes": "",
        "system_prompt": "",
        "post_history_instructions": "",
        "alternate_greetings": ["Again?"],
        "tags": ["sea", "灯塔"],
        "creator": "me",
        "character_version": "1",
        "extensions": {},
    }
    return {"spec": "chara_card_v2", "spec_version": "2.0", "data": texts | data}


def v3_card(**data):
    document = v2_card(**({"group_only_greetings": []} | data))
    return document | {"spec": "chara_card_v3", "spec_version": "3.0"}


def chunk(kind, body, *, checksum=None):
    crc = zlib.crc32(kind + body) if checksum is None else checksum
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", crc)


def text(keyword, value, **options):
    packed = value if isinstance(value, bytes) else base64.b64encode(json.dumps(value).encode())
    return chunk(b"tEXt", keyword.encode() + b"\0" + packed, **options)


PIXELS = chunk(b"IHDR", struct.pack(">IIBBBBB", 1, 1, 8, 0, 0, 0, 0)) + chunk(b"IDAT", zlib.compress(b"\0\x80"))
PICTURE = SIGNATURE + PIXELS + END


def png(*chunks, end=END):
    return SIGNATURE + PIXELS + b"".join(chunks) + end


def archive(members, **options):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, **options) as file:
        for name, body in members.items():
            file.writestr(name, body if isinstance(body, bytes) else json.dumps(body))
    return out.getvalue()


def fate_of(file, field):
    """Return fates and notes of a field of an imported file."""
    return [(each.fate.value, each.count, each.note) for each in file.fates if each.field == field]


WORDS = st.text(st.sampled_from("Mara 灯塔潮水,。\n\"'\\{}<>&@*é🙂\t"), max_size=20) | st.sampled_from(
    ["{{char}} greets {{user}}.", "<START>\n{{user}}: 你好", "<script>alert(1)</script>", "{% raw %}", "@@depth 4"]
)
NAMES = st.text(st.sampled_from("Maraé灯塔 "), min_size=1, max_size=8).filter(str.strip)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False) | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=6,
)
_UNKNOWN = st.dictionaries(NAMES.map("x_{}".format), JSON, max_size=3)
_BOOK = st.fixed_dictionaries(
    {
        "name": NAMES,
        "extensions": _UNKNOWN,
        "entries": st.lists(
            st.fixed_dictionaries(
                {"keys": st.lists(NAMES, max_size=2), "content": WORDS, "enabled": st.booleans(), "x_odd": JSON}
            ),
            max_size=3,
        ),
    }
)
_NOTE = st.fixed_dictionaries(
    {"prompt": WORDS, "depth": st.integers(0, 9), "role": st.sampled_from(["system", "user", "assistant"])}
)


@st.composite
def documents(draw):
    """Draw a V2 or V3 card as its file has it, some of its fields absent or of another type, and unknown ones among them."""
    texts = ("description", "personality", "scenario", "first_mes", "mes_example", "creator_notes", "system_prompt")
    lists = st.lists(WORDS, max_size=3)
    optional = {
        **dict.fromkeys((*texts, "post_history_instructions", "nickname"), WORDS | JSON),
        **dict.fromkeys(("alternate_greetings", "group_only_greetings", "tags"), lists | JSON),
        "creation_date": st.integers(0, 2**40),
        "assets": st.lists(st.fixed_dictionaries({"type": st.just("icon"), "uri": WORDS}), max_size=2),
        "character_book": _BOOK | st.none(),
    }
    noted = st.fixed_dictionaries({}, optional={"depth_prompt": _NOTE})
    extensions = st.builds(lambda known, unknown: unknown | known, noted, _UNKNOWN)
    data = draw(st.fixed_dictionaries({"name": NAMES}, optional={**optional, "extensions": extensions}))
    spec = draw(st.sampled_from([("chara_card_v2", "2.0"), ("chara_card_v3", "3.0"), ("chara_card_v3", "3.1")]))
    return {"spec": spec[0], "spec_version": spec[1], **draw(_UNKNOWN), "data": data | draw(_UNKNOWN)}
