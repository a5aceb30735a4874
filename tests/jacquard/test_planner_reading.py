"""What the rules read in an input: who fights and who only speaks of it, of which time it is, and what is not worth a search."""

from __future__ import annotations

import re._constants as codes
import re._parser as parser
import string
from collections.abc import Mapping
from dataclasses import fields, replace

import pytest
from forest_parts import WORLD, window

from jacquard.core.plan import Temporal, plan_to_json
from jacquard.pipeline.planning.lexicons import chinese, english, overviews
from jacquard.pipeline.planning.rules import RulePlanner
from mnemosyne.schema.world import PlannerRules, TemplateRule

GAME = replace(
    WORLD,
    entities=(),
    actions=(),
    digest="game",
    planner=PlannerRules(
        templates=(
            TemplateRule(template_id="combat", intents=("fight",)),
            TemplateRule(template_id="flashback", intents=("recall",)),
            TemplateRule(template_id="dense", intents=("overview",)),
        )
    ),
)
PLANNER = RulePlanner()


def plan(text, *, world=GAME, previous=None):
    view = window()
    if previous is not None:
        view = replace(view, previous=replace(view.previous, plan={**plan_to_json(previous)}))
    return PLANNER.plan(text, view, world)


@pytest.mark.parametrize(
    "text",
    [
        "我一个箭步冲过去，掐住他的脖子",
        "看我不砍死你！",
        "朝门口的守卫连开三枪",
        "我不得不还手，一剑刺穿了它",
        "二话不说就是一拳",
        "施放火球术，目标是那群哥布林",
        "给我往死里打！",
        "举枪瞄准，扣下扳机",
        "I bring the axe down on the troll's skull",
        "Take cover and return fire",
        "I knock the guard out cold",
        "I hurl my spear at the charging boar",
        "Cast fireball at the goblins",
        "I attack! (OOC: hope that's ok)",
        "I'm going to stab him",
    ],
)
def test_a_fight_is_a_fight(text):
    assert plan(text).template_id == "combat"


@pytest.mark.parametrize(
    "text",
    [
        "不要攻击它",
        "我劝他们别再打了",
        "收剑入鞘，转身离开",
        "远处有人在打架，我躲起来看",
        "他们为什么要攻击村子？",
        "这把剑能杀死恶龙吗？",
        "打扰了，请问这里有人住吗",
        "我用匕首割开绳子",
        "他大喊「杀了他们」",
        "我走到柜台前敲了敲木板",
        "我听见外面有打斗声",
        "Don't attack it",
        "I put my sword away and sit down",
        "I'd rather die than fight you",
        "I hear fighting in the distance",
        '"Attack!" screams the captain somewhere behind us',
        "I strike a match",
        "I shoot him a look",
        "fix the bug in fight() please",
        "How hard would it be to kill a troll?",
        "I cut the bread with my knife",
        "If he comes back I stab him",
    ],
)
def test_what_is_refused_told_asked_or_meant_otherwise_is_no_fight(text):
    assert plan(text).template_id == "chat"


@pytest.mark.parametrize(
    ("text", "temporal", "template"),
    [
        ("我当时没有攻击它，对吧", Temporal.PAST, "flashback"),
        ("我记得第一次上岛时你咳得很厉害", Temporal.PAST, "flashback"),
        ("咱俩第一次见面是在哪儿", Temporal.PAST, "flashback"),
        ("我跟铁匠约的是哪天？", Temporal.PAST, "flashback"),
        ("我有没有跟你说过我讨厌蘑菇", Temporal.PAST, "flashback"),
        ("那封信是不是被你烧了", Temporal.PAST, "flashback"),
        ("Have I met him?", Temporal.PAST, "flashback"),
        ("wasn't the bridge already broken when we got here?", Temporal.PAST, "flashback"),
        ("I don't remember", Temporal.PAST, "flashback"),
        ("Have I enough coins?", Temporal.NOW, "chat"),
        ("Have I got a bandage left?", Temporal.NOW, "chat"),
        ("Have a seat.", Temporal.NOW, "chat"),
        ("你有没有兄弟姐妹", Temporal.NOW, "chat"),
        ("我走过长长的走廊", Temporal.NOW, "chat"),
        ("记得把门锁上", Temporal.NOW, "chat"),
        ("remember to feed the raven", Temporal.NOW, "chat"),
        ("I am used to the cold", Temporal.NOW, "chat"),
        ("Have you ever seen the sea?", Temporal.PAST, "chat"),
        ("I'm going to open the door now", Temporal.NOW, "chat"),
        ("What are you going to do after the war?", Temporal.FUTURE, "chat"),
        ("假如我们输了，会有什么后果", Temporal.FUTURE, "chat"),
        ("We should leave at dawn tomorrow", Temporal.FUTURE, "chat"),
        ("这三条路线各有什么风险", Temporal.NOW, "dense"),
        ("give me all the details on the three factions", Temporal.NOW, "dense"),
        ("set the table for two", Temporal.NOW, "chat"),
    ],
)
def test_time_and_template(text, temporal, template):
    made = plan(text)
    assert (made.search_intent.temporal_context, made.template_id) == (temporal, template)
    assert made.search_intent.enabled


@pytest.mark.parametrize(
    "text",
    [
        "嗯",
        "😀",
        "/status",
        "/存档",
        "!roll 2d6",
        "OOC: what did I attack last time?",
        "（OOC 我去吃个饭）",
        "【场外】你写得真好",
        "((brb))",
        "好嘞",
        "收到，谢谢",
        "。。。",
        "ok",
        "got it, thanks",
        "hello",
        "666",
        "Out of character for a sec: nice game",
        "",
    ],
)
def test_what_says_nothing_of_the_story_searches_nothing(text):
    made = plan(text)
    assert not made.search_intent.enabled
    assert made.search_intent.focus_keywords == ()
    assert made.confidence == 1.0
    assert made.template_id == "chat"


@pytest.mark.parametrize(
    "text",
    ["/me bows politely", "yes, I'll take the room", "Continue down the tunnel", "场外有人敲门", "嗯，我想想她的名字"],
)
def test_what_says_something_is_searched_for(text):
    assert plan(text).search_intent.enabled


def test_a_name_is_never_filler():
    assert plan("村长", world=replace(GAME, entities=WORLD.entities, digest="named")).search_intent.enabled


def test_go_on_keeps_the_template_of_the_scene():
    fight = plan("I slash at the hound")
    assert fight.template_id == "combat"
    for text in ("again!", "再来一下！", "继续", "go on"):
        assert plan(text, previous=fight).template_id == "combat"
        assert plan(text).template_id == "chat"
    assert plan("I look around.", previous=fight).template_id == "chat"


def test_the_first_word_of_a_sentence_makes_no_plan_surer():
    assert plan("Attack the hound").search_intent.focus_keywords == ()
    assert plan("Rummage in the sack").confidence == plan("rummage in the sack").confidence
    assert plan("I ask Caroline about it").confidence > plan("I ask her about it").confidence


def test_time_is_a_condition_of_a_rule():
    rules = PlannerRules(
        templates=(
            TemplateRule(template_id="dense", temporal_context=("future",)),
            TemplateRule(template_id="flashback", keywords=("mill",), temporal_context=("past",)),
        )
    )
    world = replace(GAME, planner=rules)
    assert plan("Tomorrow we see the mill", world=world).template_id == "dense"
    assert plan("What happened at the mill yesterday?", world=world).template_id == "flashback"
    assert plan("I enter the mill", world=world).template_id == "chat"


@pytest.mark.parametrize(
    ("text", "template"),
    [
        ("I attack him", "combat"),
        ("I do not attack him", "chat"),
        ("heart attack?", "chat"),
        ("打听消息", "dense"),
        ("不打听", "chat"),
    ],
)
def test_keywords_of_a_pack_are_read_in_their_sense(text, template):
    rules = PlannerRules(
        templates=(
            TemplateRule(template_id="combat", keywords=("attack",)),
            TemplateRule(template_id="dense", keywords=("打听",)),
        )
    )
    assert plan(text, world=replace(GAME, planner=rules)).template_id == template


def test_a_world_without_rules_recalls_and_gives_overviews_but_never_fights():
    bare = replace(GAME, planner=PlannerRules())
    assert plan("What did I tell you yesterday?", world=bare).template_id == "flashback"
    assert plan("Summarise all the clues", world=bare).template_id == "dense"
    assert plan("I stab him", world=bare).template_id == "chat"
    own = replace(GAME, planner=PlannerRules(default_template="dense"))
    assert plan("What did I tell you yesterday?", world=own).template_id == "dense"


def test_an_action_is_meant_also_when_somebody_is_spoken_to():
    assert plan("村长，喝一瓶治疗药水", world=WORLD).action_id == "drink_potion"
    assert plan("好，喝一瓶治疗药水吧", world=WORLD).action_id == "drink_potion"
    assert plan("不，不要喝治疗药水", world=WORLD).action_id is None


@pytest.mark.parametrize(
    ("chinese", "english", "template", "temporal"),
    [
        ("我把提灯扔向守卫，挂上铃铛。", "I throw the lantern at Corin and hang the bell.", "combat", "now"),
        ("村长为什么拒绝帮我们？", "Why did the chief refuse to help us?", "flashback", "past"),
        ("我还剩多少钱，身体怎么样？", "How much money have I left, and how am I?", "chat", "now"),
        ("我身上有什么，还有哪些事没做完？", "What have I left to do, and what do I carry?", "dense", "now"),
        ("我把信落在哪儿了？", "Where have I left the letter?", "flashback", "past"),
        ("我把桌上的铜板清点一遍。", "I sum up the coins on the table.", "chat", "now"),
    ],
)
def test_both_languages_are_read_alike(chinese, english, template, temporal):
    for text in (chinese, english):
        planned = plan(text)
        assert (planned.template_id, planned.search_intent.temporal_context.value) == (template, temporal), text


def needs(parts, is_needed) -> bool:
    """Return whether every match of a parsed pattern contains a character that `is_needed` accepts."""
    return any(_needs_one(code, value, is_needed) for code, value in parts)


def _needs_one(code, value, is_needed) -> bool:
    if code is codes.LITERAL:
        return is_needed(value)
    if code is codes.IN:
        ends = [
            [each] if kind is codes.LITERAL else each for kind, each in value if kind in (codes.LITERAL, codes.RANGE)
        ]
        return len(ends) == len(value) and all(is_needed(end) for each in ends for end in each)
    if code is codes.BRANCH:
        return all(needs(branch, is_needed) for branch in value[1])
    if code is codes.SUBPATTERN:
        return needs(value[3], is_needed)
    if code in (codes.MAX_REPEAT, codes.MIN_REPEAT, codes.POSSESSIVE_REPEAT):
        return value[0] > 0 and needs(value[2], is_needed)
    return code is codes.ATOMIC_GROUP and needs(value, is_needed)


@pytest.mark.parametrize(
    ("lexicon", "is_needed", "free"),
    [
        (english.LEXICON, lambda code: chr(code) in string.ascii_lowercase, set()),
        (overviews.ENGLISH, lambda code: chr(code) in string.ascii_lowercase, set()),
        (chinese.LEXICON, lambda code: code > 127, {"filler"}),
        (overviews.CHINESE, lambda code: code > 127, {"filler"}),
    ],
)
def test_a_table_finds_nothing_in_a_text_without_a_letter_of_its_language(lexicon, is_needed, free):
    """`by_script` leaves such tables out. `filler` is not searched for by it."""
    found = {}
    for each in fields(lexicon):
        value = getattr(lexicon, each.name)
        for pattern in value.values() if isinstance(value, Mapping) else [value]:
            found[each.name] = found.get(each.name, True) and needs(parser.parse(pattern.pattern), is_needed)
    assert {name for name, is_needed in found.items() if not is_needed} == free
