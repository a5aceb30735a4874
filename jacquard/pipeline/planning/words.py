"""Common English words that are no names where they begin a sentence. Data only."""

from __future__ import annotations

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
