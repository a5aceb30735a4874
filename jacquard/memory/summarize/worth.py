"""Rates the sentences of a conversation by how likely later questions ask for them, in English and Chinese. Pure.

High: names, numbers, dates, promises, deaths, relations, and things given, owed, found or revealed. Low: scenery. Zero:
waiting, greetings, talk outside of the story, instructions to a model, and quotations of our own markup.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import lru_cache
from typing import NamedTuple

from mnemosyne.core.lazy_patterns import lazy_pattern


def _words(text: str) -> str:
    """Return a pattern for English words, each complete; `*` matches any ending."""
    return r"\b(?i:" + "|".join(word.replace("*", r"\w*") for word in text.split()) + r")\b"


_NUMBER = lazy_pattern(
    r"\d+|[一二三四五六七八九十百千万两半][一-鿿]|初[一二三四五六七八九十]|[正腊]月|明[天晚早日年]|昨[天晚夜日]|后[天日]|"
    r"三更|午夜|子时|"
    + _words(
        "two three four five six seven eight nine ten eleven twelve *teen *teenth twent* thirt* fort* fift* sixt* sevent* "
        "eight* ninet* dozen hundred thousand half twice third fourth fifth sixth seventh eighth ninth tenth monday "
        "tuesday wednesday thursday friday saturday sunday january february april june july august september october "
        "november december midnight noon tomorrow yesterday"
    )
)
_NAME = lazy_pattern(
    r"(?<=[\w,;:'’—-] )(?!I\b)[A-Z][\w'’-]+(?: [A-Z][\w'’-]+)*"
    r"|\b(?:Mr|Mrs|Miss|Ms|Dr|Captain|Lady|Lord|Sir|Father|Mother|King|Queen) [A-Z]\w+"
)
_NAME_ZH = lazy_pattern(
    r"(?:姓|名叫|叫做|叫作|叫|名为|名字是)「?[一-鿿]{1,4}|[阿老小][一-鿿](?=[，。、：；的说道问把在从是站坐跪])"
    r"|[一-鿿]{1,2}(?:大人|掌柜|郎中|婶|大娘|大爷|三爷|老爷|师父|先生|太太|姑娘|公子|将军|夫人|道长|县令|县丞|村长|队长|"
    r"船长|老板)"
    r"|《[^《》]{1,40}》|[一-鿿](?:井|桥|镇|村|庙|府|山|河|岛|城|码头|客栈|驿馆|洞|渡口)"
)
_DEED = lazy_pattern(
    _words(
        "promis* swear* swore sworn vow* owe owed owes owing debt debts pay pays paid lend* lent borrow* give* gave given "
        "giving take takes took taken stole* steal* rob robbed thief thieves theft hid* found find finds discover* "
        "reveal* learn learns learned learnt confess* admit* secret* lie lied lies lying betray* kill* murder* die died "
        "dies dead dying death bury buries buried born marr* wedding widow daughter son brother sister wife husband "
        "mother father child twin key letter receipt map plan deed paper sign signs signed seal sealed lock locked "
        "unlock* missing misses lost lose loses gone vanish* disappear* broke broken breaks burn* saw cut open* caught "
        "arrest* accus* alibi witness* agree* deal offer* refus* must never always because since until want wants wanted "
        "asked told tell tells know knows knew known remember* name named call calls called poison* wound* sick ill heal* "
        "cure* escap* free freed sold sell* bought buy* arriv* leav* left follow* travel* meet* met join* dug dig* built "
        "hir* prefer* allerg* like likes love loves hate hates decid* choos* chose chosen instead change changed move "
        "moved fail* won win wins complete* bring* brought forge* fraud copy copied copies gold silver coin coins"
    )
    + r"|答应|承诺|发誓|起誓|保证|欠|还给|还了|交给|借给|借了|借据|借走|送给|递给|给你|给了|塞给|拿走|拿了|偷|抢|藏|埋|葬|"
    r"找到|找出|发现|看见|"
    r"亲眼|听见|得知|知道|告诉|承认|招认|秘密|其实|原来|说谎|骗|假的|真的|出卖|背叛|杀|死|遇害|毒|病|伤|断|治|救|逃|放走|"
    r"关进|锁|钥匙|信|欠条|"
    r"契|收据|地图|图纸|纸条|印|签|丢|失踪|不见|没了|少了|坏|烧|砸|泄|封|换|改|开门|打开|约定|等到|明年|以后|从此|从那以后|"
    r"因为|为了|必须|不许|"
    r"不准|绝不|想要|要把|打算|决定|娘|爹|母亲|父亲|女儿|儿子|兄弟|哥哥|弟弟|姐姐|妹妹|丈夫|妻子|媳妇|徒弟|师父|姓|叫|住|买|"
    r"卖|付|工钱|赌|债|"
    r"抵|钱|金币|银|离开|回乡|来了|到了|带走|带着|加入|跟踪|证人|证据|完成|失败"
)
_TELLING_QUOTE = lazy_pattern(r"[「『“«\"][^」』”»\"]{6,}")
_PROTOCOL = lazy_pattern(
    r"(?i)(?:<|&(?:amp;)*lt;)/?(?:content|thought|instruction|system|user_input|context_layer|"
    r"memor|summary|status|directive|notice|reply)|state_update|\[\s{0,20}\[?\s{0,20}\"(?:SET|ADD|SUB|MUL|DIV|PUSH|POP|DELETE)\"|"
    r"\{\s{0,20}\"op\""
)
_ORDER = lazy_pattern(
    r"(?i)\b(?:ignore|disregard|forget|override)\b.{0,30}\b(?:previous|prior|above|earlier|instructions?|rules?|prompts?)\b"
    r"|\b(?:write|print|output|repeat|reply|respond|answer|say|include|put)\b.{0,30}\b(?:exactly|verbatim|word for word|"
    r"the following|in your (?:next )?(?:reply|replies|response|answer)s?)\b"
    r"|\b(?:system|your|developer|hidden) (?:prompt|instructions?)\b|\bfrom now on,? (?:you|always|answer|reply)\b|"
    r"\byou are now\b|\b(?:developer|debug|admin) mode\b|\bjailbreak"
    r"|(?:忽略|无视|忘记|忘掉|不要管|别管|抛开).{0,12}(?:之前|以上|上面|前面|所有|先前|此前|一切).{0,6}(?:指令|设定|规则|"
    r"提示|要求|内容|限制|说明)"
    r"|(?:回复|回答|输出|回应)(?:里|中|时)|(?:原样|逐字|一字不差).{0,6}(?:输出|回复|写|重复|照抄)|从现在(?:起|开始)，?你|"
    r"你现在是一|系统提示|提示词"
    r"|(?:开发者|调试|管理员)模式"
)
_OUTSIDE = lazy_pattern(r"(?i)\bOOC\b|^\s*(?:\(\(|（（|//|/\w)|^\s*[(（\[【](?:题外|场外|出戏|戏外|系统)")
_IDLE_TEXT = """i we you he she it they a an the and then so just still only quietly silently again more some once here there on
    to for until till while moment bit little longer long around about round back keep keeps go goes going gone
    continue continues wait waits waited waiting look looks looked looking stand stands sit sits sat rest rests nod
    nods nodded shrug shrugs smile smiles smiled sigh sighs laugh laughs listen listens think pause breathe stay
    stays linger watch do does nothing say says anything something his her him them me my is am are was good morning
    evening night day afternoon everyone all hello hi hey bye goodbye farewell thanks thank very much please ok okay
    yes no yeah sure fine right hm hmm mm mhm um ah oh ha haha well great nice lol wow up down in sleep asleep bed
    ll s m ve re"""
_IDLE_WORDS = frozenset(_IDLE_TEXT.split())
_IDLE_LOOK = lazy_pattern(r"(?i)\blook(?:s|ing|ed)? (?:around|about|round)\b|看了?看?(?:四周|周围)|环顾")
_GREETING = lazy_pattern(
    r"(?i)\W*(?:good (?:morning|evening|afternoon|night|day)|hello|hi|hey|thanks|thank you|farewell|goodbye|bye)(?:\W+\w+){0,2}\W*"
    r"|\W*(?:早上好|早安|晚上好|晚安|你好|您好|再见|多谢|谢谢你?)(?:\W+\w{1,4})?\W*"
)
_IDLE_ZH = lazy_pattern(
    r"第?[\d一二三四五六七八九十]+[次遍回]|等待|等着|等一?会儿?|一会儿?|片刻|看了?看|四周|周围|环顾|四下|张望|点了?点头|"
    r"摇了?摇头|笑了笑|微笑|继续|接着|默默|静静|"
    r"安静|沉默|原地|这里|那里|早上|晚上|大家|各位|谢谢|多谢|你好|您好|再见|晚安|早安|好的|好吧|是的|没事|知道了|明白了?|"
    r"原来如此|太好了?|什么|休息|歇|"
    r"睡觉|天亮|天黑|半夜|醒来|起床|"
    r"[我你您他她它们咱就再又还也先都很真站坐在着了的呢吧吗啊哦嗯呃哈嘿唉唔呵好是对行不没有动说话做等睡去回来下到个一儿]"
)
_WORD = lazy_pattern(r"[^\W_]+")


def is_outside(text: str) -> bool:
    """Return whether a user message does not belong to the story: a remark, a command, an order to the model, or
    markup.
    """
    return bool(_OUTSIDE.search(text) or _ORDER.search(text) or _PROTOCOL.search(text))


def is_protocol(sentence: str) -> bool:
    """Return whether a sentence quotes markup or an update of the state."""
    return bool(_PROTOCOL.search(sentence))


def is_idle(sentence: str) -> bool:
    """Return whether a sentence only waits, greets, nods or looks around."""
    if _GREETING.fullmatch(sentence):
        return True
    words = _WORD.findall(sentence.casefold())
    if all(word.isascii() for word in words):
        return all(word in _IDLE_WORDS for word in words) or (len(words) <= 6 and bool(_IDLE_LOOK.search(sentence)))
    left = "".join(_WORD.findall(_IDLE_ZH.sub("", sentence)))
    return not left or (len(left) <= 2 and bool(_IDLE_LOOK.search(sentence)))


def names_in(sentence: str, names: Collection[str] = ()) -> set[str]:
    """Return the names in a sentence: each of `names` that occurs in it, and words that are written or introduced as
    names.
    """
    known = {name for name in names if len(name) > 1 and name in sentence}
    return known | read_sentence(sentence).names


def worth(sentence: str, names: Collection[str] = ()) -> float:
    """Return the worth of a sentence, 0 or more. `names` are people, places and things of the world."""
    read = read_sentence(sentence)
    told = 2.0 * min(3, len(names_in(sentence, names))) + 2.0 * min(3, read.numbers) + 1.5 * min(4, read.deeds)
    return told + read.has_quote + min(1.0, read.bytes / 200)


class ReadSentence(NamedTuple):
    """Contents of a sentence that decide its worth. `bytes` is its length in UTF-8."""

    names: frozenset[str]
    numbers: int
    deeds: int
    has_quote: bool
    bytes: int


@lru_cache(maxsize=1 << 12)
def read_sentence(sentence: str) -> ReadSentence:
    """Return the contents of a sentence.

    Results are cached, because a rolling summary rates the same sentences again each time. An erasure empties the
    cache.
    """
    return ReadSentence(
        names=frozenset([found.group() for pattern in (_NAME, _NAME_ZH) for found in pattern.finditer(sentence)]),
        numbers=len(set(_NUMBER.findall(sentence))),
        deeds=len({found.group() for found in _DEED.finditer(sentence)}),
        has_quote=_TELLING_QUOTE.search(sentence) is not None,
        bytes=len(sentence.encode("utf-8", "surrogatepass")),
    )
