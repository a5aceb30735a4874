"""Chats of other programs than SillyTavern: who said what, other replies, ids that stay, and files that are something else."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mnemosyne import (
    CorpusError,
    Role,
)
from mnemosyne.formats.chats.chatgpt import is_chatgpt, read_chatgpt
from mnemosyne.formats.chats.foreign import is_foreign_chat, read_foreign_chat
from mnemosyne.formats.chats.openai_messages import is_openai_messages, read_openai_messages
from mnemosyne.formats.chats.transcript import looks_like_transcript, read_transcript
from mnemosyne.schema.imported_files import Chat, Fate, ImportedFile
from mnemosyne.schema.record import ImportRequest

LIN = ImportRequest(users=("Lin",), assistants=("Mara",))


def save(folder: Path, value: Any, name: str = "talk.json") -> Path:
    path = folder / name
    path.write_text(value if isinstance(value, str) else json.dumps(value), encoding="utf-8")
    return path


def spoken(chat: Chat) -> list[tuple[str, str, str]]:
    return [
        (m.role.value, m.author.id if m.author else "", m.content) for turn in chat.read_turns() for m in turn.messages
    ]


def others(chat: Chat) -> list[str]:
    return [m.content for turn in chat.read_turns() for other in turn.alternatives for m in other]


def refused(read: ImportedFile) -> set[str]:
    return {each.field for each in read.fates if each.fate is Fate.NOT_SUPPORTED}


OOBABOOGA = {
    "internal": [["<|BEGIN-VISIBLE-CHAT|>", "Hi"], ["a < b?", "Yes"]],
    "visible": [["", "Hi"], ["a &lt; b?", "Yes"]],
    "metadata": {
        "assistant_1": {"timestamp": "Jun 01, 2024 15:04", "versions": [{"content": "No"}, {"content": "Yes"}]}
    },
}
OLD_OOBABOOGA = {"data": [["", "Hi"]], "data_visible": [["", "Hi"], ["a &lt; b?", "Yes"]]}
AGNAI = {
    "name": "Evening",
    "greeting": "Hi",
    "messages": [
        {"_id": "1", "msg": "Hi", "characterId": "c", "handle": "Mara"},
        {"_id": "2", "msg": "a < b?", "userId": "u", "handle": "Lin"},
        {
            "_id": "3",
            "msg": "Yes",
            "characterId": "c",
            "handle": "Mara",
            "retries": ["No"],
            "createdAt": "2024-06-01T00:00:00Z",
        },
    ],
}
CAI = {
    "histories": {
        "histories": [
            {
                "external_id": "h1",
                "msgs": [
                    {"src": {"is_human": False, "name": "Mara"}, "text": "Hi"},
                    {"src": {"is_human": True, "name": "Lin"}, "text": "a < b?"},
                    {"src": {"is_human": False, "name": "Mara"}, "text": "Yes"},
                ],
            },
            {"external_id": "h2", "msgs": [{"src": {"is_human": True}, "text": "Bye"}]},
        ]
    }
}
RISU = {
    "type": "risuChat",
    "data": {
        "message": [
            {"role": "char", "data": "Hi", "time": 1717254245123},
            {"role": "user", "data": "a < b?"},
            {"role": "char", "data": "Yes"},
        ]
    },
}
KOBOLD = {
    "prompt": "Hi",
    "actions": ["\n{{[INPUT]}}\na < b?\n{{[OUTPUT]}}\n", "Yes"],
    "authorsnote": "It rains.",
    "savedsettings": {"chatname": "Lin", "chatopponent": "Mara||$||Bo"},
}
KOBOLD_CHAT = {
    "prompt": "Mara: Hi",
    "actions": ["\nLin: a < b?", "\nMara: Yes"],
    "savedsettings": {"opmode": 3, "chatname": "Lin", "chatopponent": "Mara"},
}
CONVERSATION = [("assistant", "Mara", "Hi"), ("user", "Lin", "a < b?"), ("assistant", "Mara", "Yes")]


@pytest.mark.parametrize("value", [OOBABOOGA, OLD_OOBABOOGA, AGNAI, CAI, RISU, KOBOLD, KOBOLD_CHAT])
def test_a_chat_of_each_program(tmp_path: Path, value: Any) -> None:
    path = save(tmp_path, value)
    assert is_foreign_chat(value)
    read = read_foreign_chat(path, LIN)
    chat = read.chats[0]
    assert spoken(chat) == CONVERSATION
    assert [len(turn.messages) for turn in chat.read_turns()] == [1, 2]
    assert chat.turn_count == 2
    assert (chat.user_name, chat.character_names) == ("Lin", ("Mara",))
    assert list(chat.read_turns()) == list(read_foreign_chat(path, LIN).chats[0].read_turns())
    assert read.fates


@pytest.mark.parametrize("value", [OOBABOOGA, AGNAI])
def test_retries_are_other_replies(tmp_path: Path, value: Any) -> None:
    assert others(read_foreign_chat(save(tmp_path, value)).chats[0]) == ["No"]


def test_histories_of_one_file_are_chats_of_their_own(tmp_path: Path) -> None:
    path = save(tmp_path, CAI)
    first, second = read_foreign_chat(path).chats
    assert (first.name, second.name) == ("talk", "talk 2")
    assert [chat.name for chat in read_foreign_chat(path, ImportRequest(only="talk 2")).chats] == ["talk 2"]
    with pytest.raises(CorpusError, match=r"no chat in it is called 'talk 3'. Did you mean 'talk 2'\?"):
        read_foreign_chat(path, ImportRequest(only="talk 3"))
    assert not {turn.turn_id for turn in first.read_turns()} & {turn.turn_id for turn in second.read_turns()}


@pytest.mark.parametrize(
    ("user_tag", "reply_tag"),
    [
        ("\\n### Instruction:\\n", "\\n### Response:\\n"),
        ("<|im_end|>\\n<|im_start|>user\\n", "<|im_end|>\\n<|im_start|>assistant\\n"),
        ("\\nUSER: ", "\\nASSISTANT: "),
        ("[INST]", "[/INST]"),
    ],
)
def test_a_story_of_kobold_saved_with_its_tags(tmp_path: Path, user_tag: str, reply_tag: str) -> None:
    tags = {"instruct_starttag": user_tag, "instruct_endtag": reply_tag, "chatname": "Ana", "chatopponent": "Odessa"}
    user, reply = (tag.replace("\\n", "\n") for tag in (user_tag, reply_tag))
    actions = [
        f"{user}Where is the USER: boat?{reply}",
        "At pier nine.",
        f"{user}And the key?{reply}",
        "Behind the clock.",
    ]
    chat = read_foreign_chat(save(tmp_path, {"prompt": "", "actions": actions, "savedsettings": tags})).chats[0]
    assert spoken(chat) == [
        ("user", "Ana", "Where is the USER: boat?"),
        ("assistant", "Odessa", "At pier nine."),
        ("user", "Ana", "And the key?"),
        ("assistant", "Odessa", "Behind the clock."),
    ]


def test_an_adventure_of_kobold(tmp_path: Path) -> None:
    value = {
        "prompt": "A cave.",
        "actions": ["\n\n> go in", "Dark."],
        "actions_metadata": {"1": {"Alternative Text": [{"Text": "Light."}]}},
        "memory": "m",
    }
    read = read_foreign_chat(save(tmp_path, value))
    assert spoken(read.chats[0]) == [("assistant", "", "A cave."), ("user", "", "go in"), ("assistant", "", "Dark.")]
    assert others(read.chats[0]) == ["Light."]
    assert refused(read) == {"memory"}


def test_the_authors_note_of_kobold_comes_with_it(tmp_path: Path) -> None:
    note = read_foreign_chat(save(tmp_path, KOBOLD)).chats[0].authors_note
    assert note is not None
    assert note.text == "It rains."


def test_a_chat_of_chub(tmp_path: Path) -> None:
    lines = [
        {"user_name": "Lin", "character_name": "Mara"},
        {"name": "Mara", "is_user": False, "mes": {"message": "Hi"}},
    ]
    path = save(tmp_path, "\n".join(map(json.dumps, lines)), "talk.jsonl")
    read = read_foreign_chat(path)
    assert (read.format, spoken(read.chats[0])) == ("chub", [("assistant", "Mara", "Hi")])


HOSTILE = [
    {"internal": [None, 3, [], [[], {}], [4]], "visible": []},
    {"data_visible": [[{"a": 1}, 5]]},
    {"messages": [{"msg": None}, {"msg": 3}, 4]},
    {"histories": {"histories": [{"msgs": {}}, {"msgs": [{"src": 4}]}, None]}},
    {"type": "risuChat", "data": {"message": 4}},
    {"prompt": "", "actions": [None, {}, 3]},
]


@pytest.mark.parametrize("value", HOSTILE)
def test_what_is_wrong_inside_is_no_message(tmp_path: Path, value: Any) -> None:
    with pytest.raises(CorpusError, match=r"holds no message of a chat|is not a chat of Chub"):
        read_foreign_chat(save(tmp_path, value))


@pytest.mark.parametrize("value", [{}, [], "hello", {"entries": {}}, {"messages": []}])
def test_what_is_no_chat_is_refused(tmp_path: Path, value: Any) -> None:
    assert not is_foreign_chat(value)
    with pytest.raises(CorpusError):
        read_foreign_chat(save(tmp_path, json.dumps(value)))


PICTURE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}
CALL = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
MESSAGES = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": [{"type": "text", "text": "What is it?"}, PICTURE], "name": "Lin"},
    {"role": "assistant", "content": None, "tool_calls": [CALL]},
    {"role": "tool", "content": "a lamp", "tool_call_id": "c1"},
    {"role": "assistant", "content": "一盏灯。", "refusal": "no"},
    {"role": "user", "content": "Thanks."},
]


@pytest.mark.parametrize("value", [MESSAGES, {"messages": MESSAGES, "model": "m"}, [{"messages": MESSAGES}]])
def test_messages_of_the_openai_api(tmp_path: Path, value: Any) -> None:
    assert is_openai_messages(value)
    chat = read_openai_messages(save(tmp_path, value)).chats[0]
    first, second = chat.read_turns()
    assert [m.role for m in first.messages] == [Role.SYSTEM, Role.USER, Role.ASSISTANT, Role.TOOL, Role.ASSISTANT]
    assert [m.content for m in first.messages] == ["Be brief.", "What is it?", "", "a lamp", "一盏灯。"]
    assert first.messages[1].extra["parts"] == [{"type": "text", "text": "What is it?"}, PICTURE]
    assert first.messages[1].author.id == "Lin"
    assert first.messages[2].extra["tool_calls"] == [CALL]
    assert first.messages[3].extra["tool_call_id"] == "c1"
    assert first.messages[4].extra["openai"] == {"refusal": "no"}
    assert [m.content for m in second.messages] == ["Thanks."]


def test_lines_of_conversations_and_of_messages(tmp_path: Path) -> None:
    talk = {"messages": MESSAGES}
    path = save(tmp_path, "\n".join(json.dumps(each) for each in (talk, talk)), "a.jsonl")
    assert [chat.name for chat in read_openai_messages(path).chats] == ["a", "a 2"]
    path = save(tmp_path, "\n".join(json.dumps(each) for each in MESSAGES), "b.jsonl")
    assert read_openai_messages(path).chats[0].turn_count == 2


def test_a_message_with_an_unknown_role_is_counted(tmp_path: Path) -> None:
    read = read_openai_messages(save(tmp_path, [*MESSAGES, {"role": "ghost", "content": "boo"}, {"role": []}, 3]))
    assert len(spoken(read.chats[0])) == len(MESSAGES)
    assert ("messages.*", 3) in [(each.field, each.count) for each in read.fates if each.fate is Fate.NOT_SUPPORTED]


@pytest.mark.parametrize(
    "value", [{}, [], [1], [{"role": "user"}], [{"role": [], "content": ""}], {"messages": {}}, AGNAI, None]
)
def test_what_are_no_messages_of_the_openai_api(tmp_path: Path, value: Any) -> None:
    assert not is_openai_messages(value)
    with pytest.raises(CorpusError, match="holds no messages of the OpenAI API"):
        read_openai_messages(save(tmp_path, json.dumps(value)))


def node(
    key: str, parent: str | None, role: str = "", text: str = "", *children: str, **content: Any
) -> dict[str, Any]:
    message = {
        "author": {"role": role},
        "create_time": 1717254245.5,
        "content": content or {"content_type": "text", "parts": [text]},
        "metadata": {"model_slug": "m"},
    }
    return {key: {"id": key, "parent": parent, "children": list(children), "message": message if role else None}}


def chatgpt(**fields: Any) -> list[dict[str, Any]]:
    mapping = {
        **node("root", None, "", "", "sys"),
        **node("sys", "root", "system", "", "u1"),
        **node("u1", "sys", "user", "Where?", "old", "think"),
        **node("old", "u1", "assistant", "There.", "u9"),
        **node("u9", "old", "user", "Sure?"),
        **node("think", "u1", "assistant", "", "new", content_type="thoughts", thoughts=[{"content": "hm"}]),
        **node("new", "think", "assistant", "在这里。", "u2a", "u2"),
        **node("u2a", "new", "user", "Thans"),
        **node("u2", "new", "user", "Thanks", "end"),
        **node(
            "end", "u2", "assistant", "", content_type="multimodal_text", parts=["Look:", {"asset_pointer": "file-1"}]
        ),
    }
    return [{"title": "The lamp", "conversation_id": "c-1", "current_node": "end", "mapping": mapping, **fields}]


def test_an_export_of_chatgpt(tmp_path: Path) -> None:
    value = chatgpt()
    assert is_chatgpt(value)
    read = read_chatgpt(save(tmp_path, value, "conversations.json"))
    (chat,) = read.chats
    assert chat.name == "The lamp"
    assert [each[::2] for each in spoken(chat)] == [
        ("user", "Where?"),
        ("assistant", "在这里。"),
        ("user", "Thanks"),
        ("assistant", "Look:"),
    ]
    assert others(chat) == ["There."]
    first, second = chat.read_turns()
    assert len(first.alternatives) == 1
    assert second.messages[1].extra["chatgpt"]["parts"] == [{"asset_pointer": "file-1"}]
    assert refused(read) == {"*.mapping.*.children.*", "*.mapping.*.message.content.thoughts"}
    assert first.messages[0].at is not None


def test_conversations_with_one_title_and_without_a_current_node(tmp_path: Path) -> None:
    value = [*chatgpt(), *chatgpt(conversation_id="c-2", current_node=None), {"title": "empty", "mapping": {}}]
    read = read_chatgpt(save(tmp_path, value))
    assert [chat.name for chat in read.chats] == ["The lamp", "The lamp (2)"]
    assert read.notes == ("Chats without a message, which are left out: 1.",)


@pytest.mark.parametrize("link", ["parent", "children"])
def test_either_kind_of_link_is_enough(tmp_path: Path, link: str) -> None:
    value = chatgpt(current_node=None)
    for each in value[0]["mapping"].values():
        del each[link]
    chat = read_chatgpt(save(tmp_path, value)).chats[0]
    assert [each[2] for each in spoken(chat)] == ["Where?", "在这里。", "Thanks", "Look:"]
    assert others(chat) == ["There."]


def test_messages_that_hang_together_with_nothing_are_told(tmp_path: Path) -> None:
    value = chatgpt()
    value[0]["mapping"].update(node("lost", "gone", "user", "Hello?"))
    (note,) = [each.note for each in read_chatgpt(save(tmp_path, value)).fates if "nothing on the path" in each.note]
    assert note


def test_a_tree_that_is_none_ends(tmp_path: Path) -> None:
    loop = {**node("a", "b", "user", "x", "b", "a"), **node("b", "a", "assistant", "y", "a", "zz"), "c": 3}
    read = read_chatgpt(save(tmp_path, [{"mapping": loop, "current_node": "b"}, {"mapping": loop, "current_node": []}]))
    assert [each[2] for each in spoken(read.chats[0])] == ["x", "y"]


TRANSCRIPT = """A log of the evening

[2024-06-01 15:04] Lin: Where is the lamp?
It was here.

Remember the well.
[15:05] Mara: In the well, you said:
note: bring a rope
http://example.org/well is no speaker
Lin: Thanks.
"""


def test_a_transcript(tmp_path: Path) -> None:
    read = read_transcript(save(tmp_path, TRANSCRIPT, "talk.txt"), ImportRequest())
    chat = read.chats[0]
    assert spoken(chat) == [
        ("user", "Lin", "Where is the lamp?\nIt was here.\n\nRemember the well."),
        ("assistant", "Mara", "In the well, you said:\nnote: bring a rope\nhttp://example.org/well is no speaker"),
        ("user", "Lin", "Thanks."),
    ]
    assert [len(turn.messages) for turn in chat.read_turns()] == [2, 1]
    first = next(chat.read_turns()).messages
    assert first[0].at is not None
    assert first[1].extra["transcript"] == {"time": "15:05"}
    assert read.notes == ("user: Lin; assistant: Mara (the first speaker was taken for the user)",)


def test_a_chinese_transcript(tmp_path: Path) -> None:
    text = "旁白：夜深了。\n玩家：灯在哪里？\n玛拉：在井里，\n你说过。\n"
    chat = read_transcript(save(tmp_path, text, "talk.txt"), ImportRequest()).chats[0]
    assert [each[:2] for each in spoken(chat)] == [("assistant", "旁白"), ("user", "玩家"), ("assistant", "玛拉")]
    assert spoken(chat)[2][2] == "在井里，\n你说过。"


def test_users_of_a_transcript_are_named(tmp_path: Path) -> None:
    path = save(tmp_path, TRANSCRIPT, "talk.txt")
    chat = read_transcript(path, ImportRequest(users=("Mara",))).chats[0]
    assert (chat.user_name, chat.character_names) == ("Mara", ("Lin",))
    with pytest.raises(CorpusError, match=r"'Bo' is not a speaker in it. Its speakers: Lin, Mara"):
        read_transcript(path, ImportRequest(users=("Bo",)))


def test_a_longer_transcript_has_the_same_ids(tmp_path: Path) -> None:
    short = list(read_transcript(save(tmp_path, TRANSCRIPT, "a.txt"), ImportRequest()).chats[0].read_turns())
    longer = save(tmp_path, TRANSCRIPT + "Mara: Bye.\nLin: Bye.\n", "b.txt")
    long = list(read_transcript(longer, ImportRequest()).chats[0].read_turns())
    assert long[0] == short[0]
    assert [turn.turn_id for turn in long][:2] == [turn.turn_id for turn in short]


@pytest.mark.parametrize("gap", ["", "\n"])
def test_speeches_of_several_lines(tmp_path: Path, gap: str) -> None:
    text = f"Lin: one\ntwo\n{gap}Mara: three\nfour\nRemember: five\n{gap}Lin: six\nseven\n{gap}Mara: eight\n"
    chat = read_transcript(save(tmp_path, text, "talk.txt"), ImportRequest(users=("Lin",))).chats[0]
    assert [each[1:] for each in spoken(chat)] == [
        ("Lin", "one\ntwo"),
        ("Mara", "three\nfour\nRemember: five"),
        ("Lin", "six\nseven"),
        ("Mara", "eight"),
    ]


def test_what_looks_like_a_transcript() -> None:
    assert looks_like_transcript("Lin: Hi\nMara: Hello\n")
    assert looks_like_transcript("**Lin**: Hi\n\n**Mara**: Hello\n")
    assert looks_like_transcript("林：你好\n玛拉：你好\n")
    for text in (
        "",
        "Once upon a time: a king",
        "key: value",
        "# Title\n\nA page: of text.\n",
        '{"a": "b"}',
        "1:2\n3:4",
    ):
        assert not looks_like_transcript(text)


def test_a_text_in_which_nobody_speaks(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match="nobody speaks in it"):
        read_transcript(save(tmp_path, "Once upon a time.\n", "talk.txt"), ImportRequest())
