"""Numbers in the inputs of actions: digits, Chinese numerals and English words, with bounds and arithmetic."""

from __future__ import annotations

import pytest

from jacquard.pipeline.planning.actions import apply_action, read_input
from mnemosyne import WorldPackError, load_world
from mnemosyne.chains.quantities import read_number

WORLD = """\
id: shop
title: Shop
locale: zh
state:
  price: 3
  hero: {coins: 40, $meta: {limits: {coins: [0, 99]}}}
  bag: {_anchor: bag, items: [{id: potion, name: 伤药, count: 1}]}
"""
ACTIONS = """\
- id: buy
  patterns: ['买{n}?(?:瓶|份)?伤药', 'buy (?:{n} )?potions?']
  numbers: [{name: n, most: 20}]
  guards:
    - {path: hero.coins, op: ">=", value: "{n * price}", message: 钱不够。}
  ops:
    - [SUB, hero.coins, "{n * price}"]
    - [ADD, potion.count, "{n}"]
  reply: "买了 {{ numbers.n }} 瓶，共 {{ item('potion').count }} 瓶，剩 {{ state.hero.coins }}。"
"""


def shop(tmp_path, actions=ACTIONS):
    (tmp_path / "world.yaml").write_text(WORLD, encoding="utf-8")
    (tmp_path / "actions.yaml").write_text(actions, encoding="utf-8")
    return load_world(tmp_path)


@pytest.mark.parametrize(
    ("said", "reply"),
    [
        ("买3瓶伤药", "买了 3 瓶，共 4 瓶，剩 31。"),
        ("买三瓶伤药。", "买了 3 瓶，共 4 瓶，剩 31。"),
        ("买两瓶伤药", "买了 2 瓶，共 3 瓶，剩 34。"),
        ("买十二瓶伤药吧", "买了 12 瓶，共 13 瓶，剩 4。"),
        ("买伤药", "买了 1 瓶，共 2 瓶，剩 37。"),
        ("Buy twelve potions!", "买了 12 瓶，共 13 瓶，剩 4。"),
        ("buy a potion", "买了 1 瓶，共 2 瓶，剩 37。"),
        ("买十五瓶伤药", "钱不够。"),
        ("买0瓶伤药", "数量要在 1 到 20 之间。"),
        ("买一百瓶伤药", "数量要在 1 到 20 之间。"),
    ],
)
def test_the_number_is_what_is_paid_and_added(tmp_path, said, reply):
    world = shop(tmp_path)
    found = read_input(said, world)
    assert found.action is not None
    done = apply_action(found.action, found.groups, world.state, locale=world.locale)
    assert done.reply == reply
    if "买了" not in reply:
        assert done.state == world.state
        assert done.patch == ()


@pytest.mark.parametrize("said", ["买两三瓶伤药", "买几瓶伤药", "买三瓶伤药给他，然后离开"])
def test_what_is_no_plain_number_is_left_to_the_model(tmp_path, said):
    assert read_input(said, shop(tmp_path)).action is None


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (('"{n * price}"]', '"{m * price}"]'), "'m' is not a number of this action"),
        (('"{n}"]', '"{n *}"]'), "cannot be calculated"),
        (("{name: n,", "{name: k,"), "which is in no pattern"),
        (("most: 20", "most: 0"), "above the most 0"),
    ],
)
def test_faults_of_numbers_name_their_place(tmp_path, change, told):
    with pytest.raises(WorldPackError, match="actions") as caught:
        shop(tmp_path, ACTIONS.replace(*change))
    assert told in str(caught.value)


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("一百零五", 105),
        ("一百五", 150),
        ("二十三", 23),
        ("twenty-one", 21),
        ("１２", 12),
        ("两三", None),
        ("", None),
    ],
)
def test_numbers_are_read(text, number):
    assert read_number(text) == number
