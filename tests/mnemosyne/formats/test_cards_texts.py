"""The persona, the greetings and the instructions that a prompt shows of cards."""

from __future__ import annotations

from card_files import v2_card, v3_card

from mnemosyne.formats.cards.card_json import parse_card
from mnemosyne.formats.cards.texts import greetings_of, instructions_of, persona_of
from mnemosyne.formats.losses import FieldCounter


def card_of(document):
    return parse_card(document, file_name="file", counter=FieldCounter())


def test_the_persona_of_one_card():
    example = "<START>\n{{user}}: Hello\n{{char}}: Shut the door.\nIt is cold.\n\n<start>\n{{char}}: 灯亮着。\n"
    persona = persona_of(
        [card_of(v2_card(mes_example=example, description="{{char}} waits for {{user}}."))], user="Lin"
    )
    assert list(persona.items()) == [
        ("name", "Mara"),
        ("description", "Mara waits for Lin."),
        ("personality", "dry, patient"),
        ("scenario", "A storm is coming."),
        ("examples", "Lin: Hello\nMara: Shut the door.\nIt is cold.\n\nMara: 灯亮着。"),
    ]


def test_a_nickname_takes_the_place_of_the_name_in_texts():
    persona = persona_of(
        [card_of(v3_card(nickname="阿玛", description="{{char}}是守塔人。", mes_example=""))], user="林舟"
    )
    assert (persona["name"], persona["nickname"], persona["description"]) == ("Mara", "阿玛", "阿玛是守塔人。")
    assert "examples" not in persona


def test_empty_fields_are_left_out():
    card = card_of(
        {"data": {"name": "Mara", "description": "  ", "nickname": "Mara", "mes_example": "<START>\n<START>"}}
    )
    assert dict(persona_of([card], user="")) == {"name": "Mara"}


def test_several_cards_are_a_list_of_characters():
    cards = [card_of(v2_card(name=name, description="I am {{char}}.", mes_example="")) for name in ("Mara", "奥斯")]
    characters = persona_of(cards, user="Lin")["characters"]
    assert [(each["name"], each["description"]) for each in characters] == [
        ("Mara", "I am Mara."),
        ("奥斯", "I am 奥斯."),
    ]
    assert persona_of([], user="Lin") == {}


def test_a_name_that_is_not_known_stays_a_macro():
    persona = persona_of([card_of(v2_card(mes_example="{{user}}: Hi\n{{char}}: Hm."))], user="")
    assert persona["examples"] == "{{user}}: Hi\nMara: Hm."


def test_examples_with_names_and_with_full_colons():
    example = "Lin：你好\n（她抬头。）\nMara：关门。\nLin: ok"
    persona = persona_of([card_of(v2_card(mes_example=example))], user="Lin")
    assert persona["examples"] == "Lin：你好\n（她抬头。）\nMara：关门。\nLin: ok"


def test_greetings_are_filled_and_empty_ones_left_out():
    card = card_of(v2_card(first_mes="Late, <USER>.", alternate_greetings=["", " \n", "{{CHAR}} nods.{{// a remark}}"]))
    assert greetings_of(card, user="Lin") == ("Late, Lin.", "Mara nods.")
    assert greetings_of(card_of(v2_card(first_mes="", alternate_greetings=[])), user="Lin") == ()


def test_instructions_are_filled_and_stand_beside_the_original():
    card = card_of(v2_card(system_prompt="{{original}}\nYou are {{char}}.", post_history_instructions="{{ORIGINAL}}"))
    assert instructions_of(card, user="Lin") == ("You are Mara.", "")
    assert instructions_of(card, user="Lin", original=r"Play \1 well.") == ("Play \\1 well.\nYou are Mara.", "")


def test_other_macros_and_markup_are_data():
    text = "{{random:a,b}} {{getvar::x}} <script>alert(1)</script> {% include 'x' %} {{ 7*7 }}"
    assert persona_of([card_of(v2_card(description=text))], user="Lin")["description"] == text


def test_a_name_that_is_a_macro_is_filled_once():
    persona = persona_of([card_of(v2_card(name="{{user}}", description="{{char}}, {{user}}"))], user="{{char}}")
    assert persona["description"] == "{{user}}, {{char}}"
