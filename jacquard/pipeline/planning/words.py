"""Words that show the time to which an input refers, and words that are no names, in Chinese and English.

Data only. A world pack adds words of its own (`planner.yaml`: past_words, future_words).
"""

from __future__ import annotations

import re

_PAST_ZH = (
    "很久之前 不久之前 以前 从前 先前 早先 曾经 当初 当年 当时 那时 那天 那次 往事 过去的 上次 上回 上一次 "
    "上周 上个月 去年 昨天 昨晚 前天 "
    "刚才 刚刚 早些时候 小时候 记得 回忆 回想 想起 忘了 忘记 提到过 提过 说过 讲过 见过 去过 答应过 发生了什么 发生过 最初 第一次见"
)
_PAST_EN = (
    "remember, remembered, recall, recalled, forgot, forgotten, earlier, previously, formerly, last time, last week, last month, "
    "last year, last night, yesterday, ago, used to, back then, the other day, in the past, at first, at the time, what happened, "
    "happened, mentioned, promised, you said, you told, told me, he said, she said, they said, did you, did i, did we, did he, "
    "did she, did they, when did, what did, where did, why did, how did, who did, have we, have i, have you ever, when was, "
    "when were, who was, just now"
)
_FUTURE_ZH = (
    "接下来 打算 计划 准备去 即将 将要 将会 将来 未来 今后 以后 往后 下一步 下次 下回 "
    "明天 明晚 后天 明年 下周 下个月 待会 等会 一会儿 稍后"
)
_FUTURE_EN = (
    "will, shall, going to, gonna, plan to, plan on, planning to, intend to, about to, tomorrow, next time, next week, "
    "next month, next year, soon, tonight, from now on, in the future, what next, what's next, i'll, we'll, you'll, he'll, "
    "she'll, they'll, later today"
)
PAST_WORDS = (*_PAST_ZH.split(), *_PAST_EN.split(", "))
FUTURE_WORDS = (*_FUTURE_ZH.split(), *_FUTURE_EN.split(", "))

# 「出发之前,」 and "before we go" do not refer to the past; 「之前说过」 and "it came up before" do.
PAST_PATTERN = re.compile(r"之前(?!\s*[,、])|\bbefore(?=\s*(?:$|[.,;:!?…]))")

_PLAIN_WORDS = (
    "a an the this that these those there here it its he she they we you i me my mine your yours his her hers our ours their "
    "theirs them him us who whom whose what which when where why how is are was were am be been being do does did done has "
    "have had having can could will would shall should may might must if then else and or but nor so yet for of in on at to "
    "from by with about into over after before under between through during without within as than not no yes ok okay please "
    "hi hello hey well oh ah thanks thank let lets let's go goes get give tell show say ask look see take make put use find "
    "list describe explain remember recall think know want need try now today tomorrow yesterday once all any both each "
    "every some such many much more most other another same only also just even still again maybe perhaps according based "
    "since because while although though i'm i'll i've i'd it's don't can't what's who's where's that's there's he's she's "
    "we're they're you're"
)
NOT_NAMES = frozenset(_PLAIN_WORDS.split())
