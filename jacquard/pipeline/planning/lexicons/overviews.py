"""Contains the words that ask for an overview of the play so far, in English and Chinese.

An overview is an answer from many memories ("Who have I met so far?"). The module `overview` applies these patterns to normalised
text in which NAME replaces each name of the world.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from jacquard.core.plan import OverviewScope
from jacquard.pipeline.planning.lexicons.lexicon import any_of, words_of
from mnemosyne.core.lazy_patterns import lazy_pattern
from mnemosyne.values import dataclass

NAME = "※"


@dataclass(frozen=True, kw_only=True, slots=True)
class OverviewLexicon:
    """Patterns of one language."""

    questions: Mapping[OverviewScope, re.Pattern[str]]
    """Scope (kind of subject) -> questions that ask for an overview of this kind of subject."""
    retell: re.Pattern[str]
    """Verbs and phrases of summing up ("summarize", "give me a recap")."""
    alone: re.Pattern[str]
    """Verbs of summing up that need no object."""
    tell: re.Pattern[str]
    """Verbs of telling. They ask for an overview only together with an object of `topics`."""
    topics: Mapping[OverviewScope, re.Pattern[str]]
    """Scope -> objects of `retell` and `tell` that have this scope."""
    matters: re.Pattern[str]
    """Words for what has happened ("story", "events"). A request that has one of these words and a word of `retell`, but no
    word of `topics`, asks for an overview of everything (`OverviewScope.ALL`).
    """
    whole: re.Pattern[str]
    """Words that ask for everything about a subject ("everything", "from the start")."""
    wish: re.Pattern[str]
    """Requests for everything that contain neither a word of `retell` nor of `tell` ("Everything we know about the mill?")."""
    acting: re.Pattern[str]
    """Beginning of a clause in which the player acts ("I quietly …"). A verb of summing up or telling after such a beginning is
    not a request.
    """
    thinking: re.Pattern[str]
    """Verbs by which the player reviews what is known ("I think back over the clues"). With an object of `topics` they ask for
    an overview, although the player only acts.
    """
    packing: re.Pattern[str]
    """The same for what the player carries ("I take stock of my belongings")."""
    others: re.Pattern[str]
    """Clauses in which the player asks about another person's life or knowledge ("your story"), or in which another person sums
    up something ("they recap"). A sentence with such a clause does not ask for an overview.
    """
    moment: re.Pattern[str]
    """Words that mean a single point in time ("yesterday"). A question about it does not ask for an overview."""
    since: re.Pattern[str]
    """Clauses of time ("since the fire"). A name in such a clause is not the subject of the overview."""
    filler: re.Pattern[str]
    """Words that do not count as the object of a verb of summing up ("please", "again"). A request such as "Summarize, please"
    therefore has no object, and asks for everything.
    """


_KNOW = (
    r"(?:know|knew|known|learn(?:ed|t)?|found(?: out)?|find out|discover(?:ed)?|figured out|gather(?:ed)?|uncover(?:ed)?|"
    r"work(?:ed)? out|pieced together|been through|been told|experienced|established|seen|heard|noted|collected)"
)
_WE = r"(?:i|we)(?:'ve| have|'d| had)?"
_BAG = r"(?:bags?|packs?|satchel|pockets?|backpack|inventory|purse|knapsack|rucksack|pouch|sack|luggage)"
_SO_FAR = (
    r"(?:so far|thus far|this far|up to (?:now|this point|here|today)|(?:until|till) (?:now|this point|today)|to date|by now|"
    r"since\b|along the way|in the story|on (?:this|the|our|my) (?:journey|way|trip|travels)|while i was (?:away|gone|out|afk)|"
    r"to (?:me|us))"
)
_DUTIES = (
    r"(?:loose ends|unfinished business|open threads|errands|to-?do list|to-?dos|todos|promises|debts|obligations|duties|"
    r"commitments|chores)"
)
_OPEN = r"(?:open|remaining|unfinished|outstanding|pending|unsettled|unkept|undone|incomplete|leftover)"
_QUESTS = r"(?:quests?|missions?|assignments|tasks|jobs|objectives|goals)"
_HAPPENED = (
    r"(?:everything|all|what)(?: that| which)?(?:'s| has| have| had)? (?:all )?"
    r"(?:happened|gone on|occurred|taken place|come to pass)"
)
_CAST = r"(?:people|persons|characters|npcs|folks?)"

ENGLISH = OverviewLexicon(
    questions={
        OverviewScope.OWN: words_of(
            r"what (?:else |all |exactly )?(?:do|am|are|have) (?:i|we)(?: all| still| actually| currently| now| got| have)* "
            rf"(?:carry(?:ing)?|own|possess|on me|with me|on us|with us|left(?= to do|$|[?,])|in (?:my|our) {_BAG})",
            rf"what(?:'s| is| do i have| have i(?: got)?)(?: left| still)* (?:in|inside) (?:my|our) {_BAG}",
            r"^(?:please )?(?:check|show|view|open|see|display)?(?: me)? ?(?:my |the )?(?:inventory|belongings|"
            r"to-?do list)(?:,? please)?[.!?]*$",
            r"what(?!(?: \w+){0,3}? (?:you|he|she|they|it))(?:'s| is| are)?(?: \w+){0,4}? (?:left|still|remains?|remaining|yet)"
            r"(?: \w+){0,3}? (?:to do|to be done|to finish|to settle|to keep|to get done|undone|unfinished|open|pending|"
            r"outstanding|unsettled)",
            r"what(?:'s| is| remains)? (?:undone|unfinished|unsettled|outstanding)|what remains (?:to|for (?:me|us))",
            rf"(?:any|which|what|whose) (?:\w+ ){{0,2}}?(?:loose ends|unfinished business|{_OPEN} {_DUTIES})",
            rf"(?:which|what) (?:\w+ )?{_DUTIES} (?:do|have|am|are|must|should|still|remain|can)(?! you| he| she| they)",
            r"(?:what|whom?|which) (?:\w+ ){0,2}?do (?:i|we) (?:still )?owe(?! you)",
        ),
        OverviewScope.QUEST: words_of(
            r"^(?:please )?(?:check|show|view|open|see|display)?(?: me)? ?(?:my |the )?(?:quests|quest log|quest list|"
            r"quest journal)(?:,? please)?[.!?]*$",
            rf"(?:what|which) (?:are )?(?:all )?(?:of )?(?:my|our|{_OPEN}|active|current) (?:\w+ )?{_QUESTS}",
            rf"(?:what|which) {_QUESTS} (?:do|have|are|am) (?:i|we|open|active|left|still|unfinished|pending)",
            rf"how (?:far along|far) (?:am i|are we) (?:with|in|on) (?:my|our|all|the) (?:\w+ )?{_QUESTS}",
        ),
        OverviewScope.PERSON: words_of(
            rf"remind (?:me|us) (?:again )?who {NAME} (?:is|was)",
            r"who(?:'s| is| was) (?:who|everyone|everybody)|who (?:everyone|everybody) (?:is|was)",
            r"who (?:all |else )?(?:have|did|do) (?:i|we)(?: all| already| even| ever)? (?:meet|met|know|known|spoken|"
            r"talk(?:ed)?|"
            r"speak|come across|run into|encounter(?:ed)?|dealt|deal)",
            rf"(?:which|what) {_CAST} (?:have|did|do) (?:i|we)",
            rf"who (?:are|were) (?:all )?(?:these|those|the|all the) (?:{_CAST}|names) again",
            r"who (?:are|were) (?:all )?(?:my|our) (?:\w+ )?(?:suspects|friends|allies|enemies|acquaintances)",
        ),
        OverviewScope.PLACE: words_of(
            r"where (?:all )?have (?:i|we) (?:all |already |ever )?(?:been|gone|travell?ed)(?! hiding)",
            r"(?:which|what) (?:places|locations|towns|villages|rooms) (?:have|did) (?:i|we)",
        ),
        OverviewScope.ALL: words_of(
            rf"what(?:'s| has| have)? (?:all )?happened(?: to (?:me|us))?(?: all)? {_SO_FAR}",
            r"(?:which|what) (?:\w+ )?(?:clues|leads|evidence|facts|hints) (?:do|have|did) (?:i|we)",
            rf"what (?:all |else |exactly )?(?:do|did|have) (?:i|we) (?:\w+ ){{0,2}}?{_KNOW}"
            rf"(?= (?:\w+ ){{0,8}}?(?:so far|until now|till now|up to now|already|to date)| about|\s*\?|,? and |$)",
            r"what (?:do|did|have) (?:i|we) (?:\w+ )?(?:have|got|seen|heard|found|done)(?: [\w※]+){0,4}? (?:so far|"
            r"until now|up to now|"
            r"to date)",
            r"what have (?:i|we) (?:\w+ )?(?:achieved|accomplished|decided|agreed(?: on)?|discussed) (?:so far|until now|"
            r"up to now|"
            r"to date|together)",
            r"where (?:do|did) (?:things|we|matters) stand(?! between)|how do (?:things|matters) stand(?! between)|"
            r"where (?:are|were) we (?:up to |"
            r"at )?(?:in|with) (?:the|"
            r"this|our)",
            r"where (?:did|have) we (?:leave|left|get|got|stop|stopped) (?:off|to)|(?:the )?story so far|what'?s the (?:state of "
            r"(?:things|play|affairs)|situation so far)",
        ),
    },
    retell=words_of(
        r"summari[sz](?:e|ing)|recap(?:itulate)?|recapping|sum(?:ming)? (?:(?:it|this|that|everything|all|things|them) )*up",
        r"(?:give|write|make|need|want|like|get|have|offer|provide|do|show|see|hear|read)(?: me| us)? (?:an? |the |your |one )?"
        r"(?:[\w-]+ ){0,2}?(?:summary|recap|run-?down|overview|synopsis|outline|round-?up|refresher|digest|debrief)",
        r"(?:summary|recap|run-?down|overview|synopsis|refresher|round-?up)(?= of| on|,? please|[.!?]|$)",
        r"catch (?:me|us) up|bring (?:me|us) up to (?:speed|date)|(?:get|put) (?:me|us) (?:back )?(?:up to speed|in the picture)",
        r"(?:refresh|jog) (?:my|our) memory|take stock|taking stock|previously on",
    ),
    alone=words_of(
        r"summari[sz]e|recap(?:itulate)?|sum (?:(?:it|this|that|everything|all|things) )*up|summary|run-?down|overview|synopsis|"
        r"refresher|catch (?:me|us) up|bring (?:me|us) up to (?:speed|date)|(?:refresh|jog) (?:my|our) memory|take stock"
    ),
    tell=words_of(
        r"(?:go|going|run|running|think|talk|look) (?:back )?(?:over|through)|(?:go|run|walk|take|talk|lead) (?:me|"
        r"us) through|review|list|name|"
        r"remind (?:me|us)|lay out|set out|spell out|(?:put|piece|tie|pull) (?:[\w']+ ){0,4}?together|"
        r"look(?:ing)? back (?:on|at|over)|"
        r"think(?:ing)? back (?:on|over)|retrace|recount|retell|tell (?:me|us)(?: again)?|show (?:me|us)|(?:note|write|jot) down|"
        r"sort (?:out|through)|fill (?:me|us) in|what (?:are|were)|give (?:me|us)|let me (?:see|hear)|connect|repeat|enumerate|"
        r"count up|itemi[sz]e|outline|keep track of|what about"
    ),
    topics={
        OverviewScope.OWN: words_of(
            rf"(?:my|our) (?:\w+ )?(?:belongings|possessions|inventory|gear|equipment|supplies|kit|{_BAG})",
            r"(?:what|everything|all) (?:that )?(?:i|we)(?:'ve| have|'m| am|'re| are| still)* (?:carry\w*|own|owe|possess|"
            r"(?:got )?on me|"
            r"left to do|(?:have|need) to do)",
            rf"(?:my|our|the|all|any|{_OPEN}) (?:\w+ )?{_DUTIES}|what(?:'s| is)(?: still| left| yet)+ (?:to do|undone|"
            rf"unfinished|open|"
            r"to be done)|what(?:'s| is) (?:undone|unfinished)|what remains",
        ),
        OverviewScope.QUEST: words_of(
            rf"(?:(?:all|every|my|our|{_OPEN}|active|current) )+(?:the |of the |my )?{_QUESTS}|quest(?= for (?:me|us)|"
            rf"\s*[,.!?]|$)"
        ),
        OverviewScope.PERSON: words_of(
            r"who(?:'s| is| was| are)? (?:who|everyone|everybody|all of them|they all)|who (?:everyone|everybody|they all|"
            r"all of them)",
            rf"who {_WE} (?:\w+ )?(?:met|know|talked|spoken|seen)",
            rf"(?:everyone|everybody|(?:all )?(?:of )?(?:the )?{_CAST}) (?:that |whom |who )?{_WE} (?:\w+ )?(?:met|know|"
            rf"meet|seen|talked|"
            r"spoken|come across|encountered)",
            r"(?:all |the |my |our )+(?:\w+ )?(?:characters|names|suspects|npcs|acquaintances|cast)(?! of the)",
        ),
        OverviewScope.PLACE: words_of(
            rf"(?:places|locations|towns|rooms|everywhere|where) (?:that )?{_WE} (?:\w+ )?(?:been|visited|seen|gone|"
            rf"explored|travell?ed)"
        ),
        OverviewScope.ALL: words_of(
            r"clues?|evidence|leads|findings|hints|the pieces(?! of)",
            rf"(?:everything|all|anything|what|whatever)(?: that| of what)? {_WE} (?:\w+ ){{0,2}}?(?:{_KNOW}|done)",
            rf"{_HAPPENED}(?= {_SO_FAR}|\s*[,.!?)]|$)",
            r"(?:the |our |my |this )(?:whole |entire |full )?(?:story|plot|adventures?|journeys?|travels|campaign|tale|"
            r"investigation|"
            r"mystery|conversation|discussion)(?! (?:about|behind|of|with))",
            r"(?:our|my) (?:\w+ )?(?:progress|history|experiences|discoveries)|events(?: so far)?",
            r"the (?:last|past|previous) (?:few |several |two |three |\d+ )?(?:days|weeks|chapters?|sessions?|turns|scenes)",
            r"so far|up to now|until now|thus far|where (?:we|things|i) (?:stand|are|left off)|the state of (?:things|"
            r"affairs|play)",
        ),
    },
    matters=words_of(
        r"story|plot|events?|happened|journey|travels|progress|situation|case|investigation|mystery|conversation|chat|"
        r"session|chapter|"
        r"campaign|days?|weeks?|past|far|now|things|everything|all|beginning|start|adventures?|decisions|agreed|decided|"
        r"discussed|"
        r"know|learn\w*|found|discover\w*|met|seen|left|missed|clues?|evidence|leads"
    ),
    whole=words_of(
        r"everything|all|every|each|whole|entire|full|so far|up to now|until now|to date|from (?:the )?(?:very )?(?:start|"
        r"beginning|"
        r"first|top)(?: (?:to|till|until) (?:the )?(?:finish|end|last|now|bottom))?"
    ),
    wish=any_of(
        rf"^(?:so |ok |okay |now |well |and |right |please )?,? ?(?:everything|all)(?: that|"
        rf" of what)? {_WE} (?:\w+ ){{0,2}}?{_KNOW}"
        r"[^.!?]{0,80}(?:\?|\bplease\b|\babout\b)",
        r"\bfrom (?:the )?(?:very )?(?:start|beginning|first) (?:to|till|until) (?:the )?(?:finish|end|last|now)\b[^.!]{0,40}\?",
        r"\bfrom (?:the )?(?:very )?(?:start|beginning)\?",
    ),
    acting=lazy_pattern(
        r"(?:^|[,(]|\b(?:and|then|so|but|now|while|as)) ?(?:quietly |silently |slowly |quickly )?"
        r"(?:i|we)(?:'ll|'m|'re| will| am| are)? (?!(?:want|need|wish|keep|forgot|forget|lost|can|can't|cannot|don't|do not|"
        r"was|have "
        r"forgotten|would|could|should|must|ask for)\b)(?:[\w'※-]+ ){0,6}$"
    ),
    thinking=words_of(
        r"summari[sz]e|recap|sum (?:\w+ )?up|take stock|taking stock|(?:go|think|run) (?:back )?(?:over|through)|review|"
        r"look back (?:on|at|"
        r"over)|think back (?:on|over)|sort (?:out|through)|(?:put|piece) (?:[\w']+ ){0,4}?together|retrace"
    ),
    packing=words_of(r"take stock|taking stock"),
    others=words_of(
        r"you(?:'ve| have|'d| had)? (?:\w+ )?(?:know|saw|see|seen|heard|hear|remember|found|did|learn\w*|were|told|said|"
        r"think|met)",
        r"your (?:story|side|life|past|adventures?|journey|travels|childhood|family|work|day)|they (?:sum|recap|"
        r"summari[sz]e)|happened here",
    ),
    moment=words_of(
        r"last night|yesterday|that (?:night|day|evening|morning|time)|tonight|this (?:morning|evening)|back then|ago|just now"
    ),
    since=lazy_pattern(r"\b(?:since|after|before|until|till|when) [^,.;:!?]{0,80}"),
    filler=words_of(
        r"please|can|could|would|will|you|me|us|for|a|an|the|it|this|that|to|of|do|give|quick(?:ly)?|short(?:ly)?|"
        r"brief(?:ly)?|again|"
        r"once|more|just|now|then|ok(?:ay)?|so|well|let|let's|i|we|want|need|like|have|get|and|ooc|gm|dm|my|up|first|one|"
        r"make|write|in|"
        r"few|words|sentences?|time|for|hey|alright|right|good"
    ),
)

_OURS = r"(?:我们?|咱们?)"
_OF_US = rf"(?<![他她它{NAME}们])(?<![他她它{NAME}]都)"
_ASKED = r"(?:什么|哪些|啥|哪几|几件|谁)"
_STORAGE = r"(?:身上|包里|背包里?|行囊里?|口袋里?|兜里|随身|手里|手上|手头|行李里?|怀里|包袱里?)"
_FOUND_OUT = r"(?:知道|掌握|了解|查(?:到|明|清)|得知|打听到|发现|学到|经历|弄清|搞清|摸清|听说|看到|见到)"
_UNTIL_NOW = (
    r"(?:至今|迄今|(?:到|截至|截止)?(?:目前|现在|今天|此刻|眼下)(?:为止)?|一路(?:上|走来|以来|下来)?|前前后后|先后|前后|"
    r"这(?:几|些)[天日]|"
    r"这(?:段|阵)(?:时间|日子)?|前面|之前|先前|此前|以来|开头到现在)"
)

CHINESE = OverviewLexicon(
    questions={
        OverviewScope.OWN: any_of(
            rf"(?:^|[,:]|{_OURS}|看看|瞧瞧|数数|清点)(?:的|自己|现在|如今|此刻|眼下|还|一下)*{_STORAGE}[^,.!?。他她你※]{{0,5}}"
            rf"(?:有|带|装|剩|揣|留)(?:着|了|下)?(?:的)?(?:都)?(?:是)?(?:些|点)?(?:什么|哪些|啥|哪几)(?!线索|证据|情报|疑点|"
            rf"任务|委托|差事|办法|用|病|伤)",
            rf"{_OURS}(?:都|还|现在|手里|手头|自己)*有(?:着)?(?:些)?(?:什么|哪些|啥)(?:东西|物品|装备|道具|家当|武器|行李)",
            r"^(?:看看|查看|看一?下|检查|清点)?(?:我的|一下)?(?:背包|物品栏?|行囊|包裹|道具|随身物品|物品清单)(?:列表|栏|"
            r"清单)?(?:[和与、][^,.!?。]{1,8})?"
            r"[吧呗。.!?]*$",
            r"有(?:没有)?(?:什么|哪些|啥)(?:事情?|活儿?)?[^,.!?。你他她]{0,6}(?:忘了?|漏了?|没|未)[^,.!?。]{0,3}(?:做|办|干|完)",
            r"还有(?:没有)?[^,.!?。你他她]{0,6}(?:没|未)(?:有)?(?:兑现|完成|做|办|干|了结|还清|交差)",
            rf"{_OURS}(?:都|还|现在|随身)*(?:带|背|揣)(?:着|了)?(?:些|点)?(?:什么|哪些|啥)",
            r"(?:还|都|尚)(?:有没有|有|剩|差|欠|缺)?(?:着|下|了)?(?:些|点)?(?:什么|哪些|啥|哪几|"
            r"几)[^,.!?。你他她]{0,6}(?:没|未|要|得|需要|待)"
            r"[^,.!?。你他她]{0,3}(?:做|办|完|了结|还清|交差|兑现|解决|处理|收尾)",
            r"(?:还|尚)(?:剩|欠|差)(?:着|下|了)?[^,.!?。你他她]{0,8}(?:什么|哪些|哪几|几件|谁)",
            rf"{_OURS}?(?:都|还)(?:答应|承诺|许诺)(?:过|了|下)?[^,.!?。你他她]{{0,6}}{_ASKED}",
            r"(?:答应|承诺|许诺)(?:过|了)[^,.!?。你他她]{0,6}(?:什么|哪些)[^,.!?。]{0,4}(?:还|没|未)",
        ),
        OverviewScope.QUEST: any_of(
            rf"(?:{_OURS}|现在|目前|手头|手上)[^,.!?。你他她]{{0,4}}(?:有|接了?|剩)(?:着|下|了)?(?:哪些|什么|几个|"
            rf"啥)(?:任务|委托|差事|使命)",
            r"^(?:看看|查看|看一?下|检查)?(?:我的|一下)?任务(?:列表|栏|清单|日志|进度)?[吧呗。.!?]*$",
            r"(?:任务|委托|差事)[^.!?。]{0,4}(?:有哪些|各|到哪|进展|进度)",
        ),
        OverviewScope.PERSON: any_of(
            r"谁是谁|谁都是谁|都?是谁来着|认认人|(?:跟|和|同|与)(?:谁|哪些人|什么人)[^,.!?。你他她]{0,4}(?:交道|说过话|"
            r"见过面|来往|认识|接触)",
            rf"{_OURS}(?:都|已经|现在|一共|总共)*认识(?:了)?(?:哪些人|什么人|谁)",
            r"谁跟谁|谁和谁|(?:人物|角色|登场|出场|(?:见|认识|交道|遇到|碰到)过?的人)[^,.!?。]{0,6}(?:有谁|有哪些|都是谁)",
            rf"{_OF_US}(?:都|{_UNTIL_NOW}|已经|总共|一共)[^,.!?。你他她]{{0,4}}(?:见|认识|遇|碰|接触|打)(?:到|见|了|过|识|"
            rf"着|交道)*(?:些|了)?"
            r"(?:谁|哪些(?!事|线索|情|地方|东西|物)|什么人|几个人)",
            rf"{_OF_US}(?:见|认识|遇到|遇见|碰到|接触|打交道)过(?:哪些人|什么人|哪些)",
        ),
        OverviewScope.PLACE: any_of(
            rf"{_OF_US}(?:去|到|走|待|逛|来)过(?:了)?(?:哪(?:些|里|儿)|(?:些)?什么地方|几个地方)|都去了(?:哪|什么地方)"
        ),
        OverviewScope.ALL: any_of(
            r"(?:有|掌握)(?:了)?(?:哪些|些?什么|啥)(?:新)?(?:线索|证据|情报|疑点|收获|头绪|眉目|进展|成果|发现)",
            rf"(?:{_UNTIL_NOW}|都|一共|总共)[^,.!?。你他她]{{0,8}}(?:发生|出|{_FOUND_OUT})(?:过|了|到)*(?:些|哪些|什么|啥|"
            rf"多少|几)",
            r"(?:剧情|故事|案子|案情|调查)[^,.!?。]{0,4}(?:进展|到哪|到了?什么)|(?:讲|说|聊|玩|查|进行|发展|"
            r"进展)到(?:了)?(?:哪|什么(?:地步|程度|阶段))",
            rf"(?:{_OURS}|{_UNTIL_NOW}|都|一共|总共)[^,.!?。你他她]{{0,6}}(?:干|做|忙|经历|遇到|碰到|聊|谈|商量)(?:过|"
            rf"了)(?:些|哪些)(?:什么|啥|事)?",
            rf"(?:{_OURS}|{_UNTIL_NOW}|关于{NAME}|对{NAME})[^,.!?。你他她]{{0,10}}(?:知道|了解|掌握|清楚)(?:了|"
            rf"到)?(?:多少(?!就)|些?什么|哪些|些啥)",
        ),
    },
    retell=any_of(
        r"总结|概括|概述|归纳|汇总|复盘|梳理|综述|小结|前情(?:提要|回顾|概要)|梗概|大事记|时间[线轴]|捋(?:一?捋|一遍|一下|清|顺)|"
        r"理(?:一理|一遍|一下|清|顺)|盘一盘|来龙去脉|前因后果|从头(?:到尾)?(?:地|再|给我|跟我)?(?:讲|说|捋|理|过|数|回顾)|"
        r"(?:回忆|回顾|回想|重温)一下(?![^,.!?。]{0,4}那[天晚次年])"
    ),
    alone=any_of(r"总结|概括|概述|归纳|汇总|复盘|梳理|综述|小结|前情(?:提要|回顾|概要)|梗概|大事记|时间[线轴]"),
    tell=any_of(
        r"整理|回顾|回忆|回想|盘点|清点|列(?:出|个|一|举|列|份)|(?:讲|说|聊|谈)(?:讲|说|聊|谈|一?[讲说下遍]|给我|一下)|"
        r"(?:说|讲|过|理|捋|数|复述)了?一遍|告诉我|提醒我?|记(?:一下|下来)|写下来|报一?下|交代|汇报|复述|重温|想一?想|"
        r"串(?:起来|一串|一遍|一下)|[连拼]起来|过一?[下过]|摆(?:出来|一摆)|列一?下|想了?一遍|清单|一览|有哪些|都是什么|"
        r"再(?:说|讲)|介绍|帮我(?:看|查|数)"
    ),
    topics={
        OverviewScope.OWN: any_of(
            r"行囊|随身(?:的|带|物品)|背包|身上(?:的)?(?:东西|物品|家当)|家当|行李|物品栏|"
            r"(?:没|未)(?:有)?(?:做|办|完成|了结|交差|还|兑现)(?:完|清|好)?的|待办|未了的|"
            r"(?:答应|承诺|许诺)(?:过|了)?[^,.!?。]{0,6}的(?:事|话)|欠(?:着|下|了)?[^,.!?。]{0,4}(?:债|人情|账)"
        ),
        OverviewScope.QUEST: any_of(r"(?:所有|全部|各个?|手头|手上|现有|目前|当前)(?:的)?(?:任务|委托|差事|使命)"),
        OverviewScope.PERSON: any_of(
            r"谁是谁|(?:见|认识|遇到|遇见|碰到|接触|提到|出现|登场|出场)过的(?:所有|全部)?(?:人|角色)|人物(?:关系)?|"
            r"嫌疑人|(?:所有|全部|各)(?:的|个)?(?:人物|角色|人名|名字)|登场的|出场的"
        ),
        OverviewScope.PLACE: any_of(r"(?:去|到|走|待|逛|经)过的(?:所有|全部|那些)?(?:地方|地点|去处)"),
        OverviewScope.ALL: any_of(
            r"线索|证据|情报|疑点|剧情|情节|前情|见闻|大事记?|(?:重要|关键|主要)(?:的)?(?:事件?|经过)|这[次趟场段](?:冒险|"
            r"旅程|旅途|经历|调查)",
            r"(?:现在|目前|眼下|当前|如今)的?(?:局势|形势|局面|处境|情况|现状|状况|进展)|(?:整个|我们的|咱们的)(?:故事|冒险|"
            r"旅程)",
            r"(?:^|把|将|,)(?:目前|现在|已经|已)*(?:知道|掌握|了解|查到|听到|得知)(?:了)?的",
            rf"{_OURS}[^,.!?。你他她]{{0,6}}{_FOUND_OUT}(?:到|了|过)*的|(?:已知|掌握|查到|得知|打听到)的",
            rf"(?:所有|全部|一切|整个|整件|{_UNTIL_NOW})[^,.!?。你]{{0,8}}(?:事|经过|经历|内容|故事|进展|情况|对话|讨论|种种)",
            r"来龙去脉|前因后果|种种|冒险(?:经历|历程)|(?:我们|咱们|我)的(?:故事|经历|旅程|冒险|进展)",
        ),
    },
    matters=any_of(
        rf"{_UNTIL_NOW}|剧情|情节|故事|经过|经历|冒险|旅程|进展|局势|局面|形势|情况|案情|案子|调查|事情|的事|出过|发生|整件|"
        rf"聊天|对话|讨论|"
        rf"所有|全部|一切|{_FOUND_OUT}|线索|证据|情报"
    ),
    whole=any_of(r"所有|全部|一切|全都|都|整个|整件|种种|从头|前前后后|来龙去脉|前因后果|(?:知道|了解|掌握)的"),
    wish=any_of(
        rf"(?:关于|对)[^.!?。]{{1,24}}(?:我们?|咱们?)[^.!?。]{{0,6}}{_FOUND_OUT}(?:到|了|过)*的(?:一切|全部|所有)"
    ),
    acting=lazy_pattern(
        r"(?:^|[,(])(?:然后|于是|接着|随后)?(?:我们|我)(?!们?(?:想|要|需要|希望|忘|记不|有点|搞|知道的|掌握的|了解的|听说的|"
        r"查到的))[^,帮给]*$"
    ),
    thinking=any_of(
        r"总结|概括|复盘|梳理|回顾|回忆|回想|盘点|想一?想|想了一遍|从头[^,.!?。]{0,4}(?:捋|理|过|想|数|回顾)|过了?一遍|捋|"
        r"理(?:一理|一遍|一下|清|顺)|整理(?=[^,.!?。]{0,6}(?:线索|情报|证据))"
    ),
    packing=any_of(r"清点|盘点"),
    others=any_of(
        r"你们?(?!能|可以|可不|帮|给|替|来|再|先|就|快|为|说说|讲讲)",
        rf"(?:^|,)(?:{NAME}|他们?|她们?|它们?)(?:把|将|给|对|向|正|在|又|开始|便|就|也|已|说|讲|问|答|总结|整理|列|归纳|"
        rf"概括|回顾|清点|盘点)",
        r"(?:这里|这儿|那里|那儿|此地)[^,.!?。]{0,6}(?:发生|出了|怎么)",
        rf"告诉(?!我|咱)|问(?:他|她|它|{NAME})|(?:跟|对|向|和)(?:{NAME}|他|她)[^,.!?。]{{0,4}}(?:说|讲|解释)",
        r"(?:总结|概括|归纳|概述)(?:道|成|出(?!来)|说)|(?:总结|整理|归纳|概括|梳理|汇总|列)了(?!一遍)",
    ),
    moment=any_of(r"昨[天晚夜日]|前天|那[天晚夜年次]|当年|当时|刚才|刚刚|方才|上次|今[早晚]"),
    since=lazy_pattern(
        r"(?:自从|自打|打从|从)[^,.!?。]{1,16}(?:以来|起|开始|之后|以后|后)|[^,.!?。]{1,12}(?:以来|之后|以后|之前)"
    ),
    filler=any_of(
        r"请|麻烦|帮|给|替|我们?|咱们?|你|您|能不能|能|可以|可不可以|一下|一遍|一番|再|先|来|吧|吗|呢|啊|呀|好|那|现在|下|"
        r"个|做|写|把|要|"
        r"想|快|简单|简短|大概|大致|稍微|地|的|一|ooc|场外|戏外"
    ),
)
