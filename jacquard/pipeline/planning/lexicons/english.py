"""English words by which the planner reads an input. Data only; `lexicon` explains the tables."""

from __future__ import annotations

from jacquard.pipeline.planning.lexicons.lexicon import Lexicon, any_of, words_of
from mnemosyne.core.lazy_patterns import lazy_pattern

_PAST_VERBS = (
    "was|were|had|did|gave|built|made|told|said|sold|bought|took|brought|sent|wrote|killed|won|lost|left|fell|cast|met|came|"
    "went|saw|heard|"
    "found|got|knew|thought|taught|broke|stole|hid|kept|ran|fought|died|began|chose|drank|ate|drew|drove|forgot|grew|held|"
    "hurt|"
    "led|meant|paid|put|rang|rode|rose|sang|sat|set|shot|showed|slept|spoke|spent|stood|struck|swam|swore|threw|wore|woke|"
    r"(?!need\b|feed\b|seed\b|speed\b|bleed\b|breed\b|indeed\b|hundred\b|wicked\b|sacred\b|naked\b|shed\b|"
    r"sled\b)[a-z]{2,20}ed"
)
_PARTICIPLES = (
    "been|met|seen|done|told|given|gone|drunk|eaten|taken|fought|said|heard|found|lost|come|become|begun|bought|brought|"
    "built|"
    "chosen|drawn|fallen|forgotten|got(?:ten)? to (?:know|see|meet|hear|be)|had|hidden|kept|known|made|paid|read|shown|"
    "slept|sold|spoken|spent|"
    r"left(?! (?:to|of|for|over|in)\b| ?(?:$|[,.;!?]))|"
    "stolen|taught|"
    r"thought|thrown|won|worn|written|"
    r"(?!need\b|feed\b|seed\b|speed\b|bleed\b|breed\b|indeed\b|hundred\b|wicked\b|sacred\b|naked\b|shed\b|"
    r"sled\b)[a-z]{2,20}ed"
)
_WH = "what|where|when|why|how|who|whom|which"
_START = r"(?:^|(?<=[,.;:!?] )|\b(?:and|but|so|then) )"
_SOMEBODY = r"(?:him|her|it|them|you|me|us|himself|the|that|this|his|its|their|my|your)"
_FOE = "(?:him|her|it|them)"
_BODY = (
    "belly|throat|chest|face|head|neck|guts?|ribs?|eyes?|heart|legs?|arms?|back|shoulders?|flank|side|jaws?|nose|knees?|"
    "skull|"
    "stomach|body|wrist|hand|paw|snout|tail|wing|hide|spine"
)
_WEAPONS = (
    "sword|blade|knife|dagger|bow|weapon|axe|ax|gun|pistol|rifle|steel|katana|sabre|saber|rapier|spear|club|staff|mace|"
    "hammer|"
    "crowbar|torch|whip|fists?|claws?"
)

_THROWN = (
    "lantern|lamp|stones?|rocks?|brick|bottle|flask|mug|chair|stool|net|pot|pan|plate|candlestick|bomb|javelin|hatchet|boot|"
    "bucket"
)

# A form in -s or -ing fights as well; past forms report a fight, and in a story in the past tense they fight too.
_VERBS = (
    "attack(?:s|ing|ed)?|fight(?:s|ing)?|fought|slash(?:es|ing|ed)?|stab(?:s|bing|bed)?|strik(?:e|es|ing)|struck|parr(?:y|"
    "ies|ying|ied)|"
    "dodg(?:e|es|ing|ed)|punch(?:es|ing|ed)?|kick(?:s|ing|ed)?|shoot(?:s|ing)?|hit(?:s|ting)?|thrust(?:s|ing)?|lung(?:e|"
    "es|ing|ed)|"
    "hack(?:s|ing|ed)?|tackl(?:e|es|ing|ed)|wrestl(?:e|es|ing|ed)|grappl(?:e|es|ing|ed)|strangl(?:e|es|ing|ed)|chok(?:e|"
    "es|ing|ed)|"
    "headbutt(?:s|ing|ed)?|behead(?:s|ing|ed)?|disarm(?:s|ing|ed)?|ambush(?:es|ing|ed)?|counter-?attack(?:s|ing|ed)?|"
    "ripost(?:e|es|ing|ed)|"
    "cleav(?:e|es|ing)|smit(?:e|es|ing)|impal(?:e|es|ing|ed)|skewer(?:s|ing|ed)?|kill(?:s|ing|ed)?|slay(?:s|ing)?|slew|"
    "murder(?:s|ing|ed)?|"
    "bludgeon(?:s|ing|ed)?|pummel(?:s|ing|ed|led)?|clobber(?:s|ing|ed)?|bash(?:es|ing|ed)?|whack(?:s|ing|ed)?|"
    "retaliat(?:e|es|ing|ed)|"
    "slap(?:s|ping|ped)?|smack(?:s|ing|ed)?|throttl(?:e|es|ing|ed)|decapitat(?:e|es|ing|ed)|duel(?:s|ling)?|"
    "backhand(?:s|ing|ed)?|deflect(?:s|ing|ed)?|sidestep(?:s|ping|ped)?|assault(?:s|ing|ed)?|swing(?:s|ing)?|swung"
)
_FIGHT_PHRASES = (
    rf"(?:draw|pull out|whip out)(?:s|ing)? (?:(?:my|our|the|a|his|her|your) )?(?:\w+ ){{0,2}}?(?:{_WEAPONS})s?",
    rf"(?:cut|slice|fire|aim|charge|leap|spring|swipe|lash out|rush|jab|claw|bite|lash)(?:es|s|ing|d)? at {_SOMEBODY}",
    r"(?:cut|slice) (?:him|her|it|them) (?:down|open|apart)",
    r"(?:throw|hurl|fling|lob|chuck)(?:s|ing)? (?:[\w'-]+ ){1,6}?(?:at|into) (?:him|her|it|them|the|that|his|its)",
    rf"(?:{_WEAPONS}|pommel|boot|elbow|knee|shield|branch|arrow|bolt) (?:[\w'-]+ ){{0,3}}?(?:into|through|across|to|at|"
    "against|in)"
    rf" (?:[\w'-]+ ){{0,2}}?(?:him|her|it|them|{_BODY})",
    "(?:unsheathe|sweep|swing|drive|bury|sink|plunge|slam|jab|ram|brandish|whirl|lunge with|"
    "strike with)(?:s|ing)? (?:my|the|his|"
    "her|a|both)"
    rf" (?:\w+ )?(?:{_WEAPONS})",
    "(?:i|we|reed|and|then|,)? ?(?:fire|loose|shoot) (?:an? |my |your |our |the |another |one more )?(?:arrow|bolt|shot|flare|gun|"
    r"pistol|crossbow|volley)\w*(?: gun)?",
    rf"(?:throw|hurl|fling|lob|chuck)(?:s|ing)? (?:[\w'-]+ ){{0,3}}?(?:{_WEAPONS}|{_THROWN}) at [\w'-]+",
    rf"cast(?:s|ing)? [\w' ]{{1,24}}? (?:at|on|against) {_SOMEBODY}|(?:cast|hurl|throw|launch|unleash)(?:s|ing)? (?:a |"
    r"an |my |the )?(?:fireball|firebolt|lightning|magic missile|ice (?:shard|bolt)|eldritch blast|curse)\w*",
    rf"bring(?:s|ing)? (?:my|the|his|her) (?:\w+ )?(?:{_WEAPONS}) down|slit(?:s|ting)? (?:[\w']+ ){{1,3}}throats?|"
    "return fire",
    r"knock(?:s|ing)? (?:[\w']+ ){1,3}?(?:out(?! of)|unconscious|senseless)|knock(?:s|ing)? (?:him|her|it|them) (?:down|"
    "over|off)",
    "(?:rush|elbow|knee|club|spear|trip|shove|body-?slam|ram|stomp on|spit at|jump on|leap on|pounce on)(?:s|es|"
    "ing)? (?:him|her|it|them)(?! (?:into|through|out of) my)",
    rf"(?:snap|break|crack|twist|crush|smash)(?:s|ing)? (?:his|her|its|their|the \w+'s) (?:{_BODY})|(?:throw|land)(?:s|"
    "ing)? a (?:punch|kick|blow)",
    rf"over (?:his|her|its|their|the \w+'s) (?:head|skull|back)|(?:pin|flip)(?:s|ning|ping)? (?:him|her|it|them)|"
    rf"push (?:him|her|it|them) back|go(?:es)? for (?:his|her|its|their|the) (?:{_BODY})",
    rf"(?:bite|claw|scratch|gouge)(?:s|ing)? (?:him|it|them|(?:his|her|its|their) \w+)|"
    rf"(?:{_WEAPONS}) (?:[\w'-]+ ){{0,3}}?(?:towards?|for) (?:his|her|its|their|the \w+'s) (?:{_BODY})",
    r"(?:sword|knife|gun)point|(?:get|surround|flank|corner) (?:him|it|them)(?=!|$)|stop (?:him|them)(?=!|$)|"
    r"get the \w+ first|gang up on",
    r"nock(?:s|ing)? an arrow|(?:throw|hurl|fling|launch)(?:s|ing)? (?:myself|himself|herself) (?:at|on|onto)|at bay|"
    r"(?:stamp|stomp|tread)(?:s|ing)? (?:hard )?on (?:his|her|its|their|him|it)|(?:jump|leap|drop)(?:s|"
    r"ing)? (?:down )?onto (?:him|her|it|them)|clos(?:e|es|ing) in on (?:him|her|it|them|the)|open fire|on guard|"
    r"en garde|have at (?:thee|you|them|him|it)|finish (?:him|it|her|them)(?: off)?|pull the trigger",
    r"(?:hold|fend|drive|beat|fight|keep) (?:them|him|it|her|(?:the|that|those) \w+) (?:off|back)|fend off|cover (?:our|"
    "the|my|his|her|your) (?:retreat|escape)",
    "take (?:him|it|her|them) (?:down|out)|bring (?:him|it|her|them) down|get (?:him|it|them)(?=!)|beat (?:him|her|it|"
    "them)(?: up)?",
    r"block (?:with|his|its|her|it|him|the (?:blow|strike|attack|bite|swing|blade|sword|hit|punch|kick))",
    "charge (?:in|forward|into|him|her|it|them|the (?:enemy|line))|charge(?=[.!]*$)|(?:roll|jump|leap|dive|"
    "step) (?:out of the way|aside|clear)",
    r"duck(?: (?:under|behind|below|his|its|her|the|and))|^(?:i )?duck$|grab for (?:the|his|her) \w+|turn(?:s|"
    r"ing)? to (?:meet|face) the \w+ \w+",
    rf"(?:throw|slam|fling|hurl|wrestle)(?:s|ing)? {_FOE} (?:to|on|onto|against|over|off) the|(?:push|shove|kick|drag)(?:s|ing)?"
    r" (?:him|her|them) (?:off|down|over|into|against) the",
    rf"(?:force|push|shove|smash|slam|bang|hold)(?:s|ing)? (?:his|her|its|their) (?:{_BODY}) (?:into|against|under|down)|"
    r"(?:throw|fling|toss|spray|splash|blow|kick|rub|spit)(?:s|ing)? (?:[\w'-]+ ){1,4}?(?:in|into|at) (?:his|her|its|"
    r"their) (?:face|eyes?)|"
    r"(?:roll|dive|slide)(?:s|ing)? (?:under|beneath|below) (?:his|her|its|their)|roll(?:s|ing)? (?:behind|away|aside)|"
    r"(?:cut|chop|hack|slice|bite|tear|rip|lop)(?:s|ping|ting|ing)? off (?:his|her|its|their|the hand)|(?:cut|"
    r"slit)(?:s|ting)? (?:his|her|its|their|\w+'s) throat|"
    r"cut(?:s|ting)? down (?:him|her|it|them|the (?!tree|bush|rope|cost|grass|wood|branch|vine|number)\w+)|"
    r"(?:raise|lift|brace)(?:s|ing)? (?:my|the|his|her) (?:\w+ )?shield|raise(?:s|ing)? (?:my|his|her) (?:\w+ )?"
    r"(?:sword|blade|axe|spear|dagger|knife|gun|pistol|rifle|mace|fists?|weapon)|"
    rf"(?:knock|strike|twist)(?:s|ing)? the (?:{_WEAPONS}) (?:from|out of) (?:his|her|its|their)|"
    rf"(?:threaten|force|drive)(?:s|ing)? (?:[\w']+ ){{1,3}}with (?:my|the|a|his|her) (?:\w+ )?(?:{_WEAPONS})|"
    r"(?:put|send|let fly)(?:s|ing)? (?:an? )?(?:arrow|bolt|knife|bullet)s? (?:in|into|through|at)",
    rf"(?:seize|grab|grip|catch|take|have|hold|get)(?:s|ing)? (?:{_FOE}|the \w+) (?:by the (?:throat|neck|collar|hair|"
    rf"scruff)|in an? \w+(?:hold|lock))|"
    r"(?:seize|grab|catch|twist)(?:s|ing)? (?:his|her|its|their|\w+'s) (?:wrist|throat|neck)",
    rf"(?:press|hold|put|level|point|aim)(?:s|ing)? (?:my|the|a|his|her) (?:\w+ )?(?:{_WEAPONS}) (?:to|against|at)",
)
_IDIOM_OBJECTS = (
    "roads?|sack|hay|books|bottle|jackpot|button|switch|lights?|brakes|gas|bell|gong|match(?:es)?|drums?|nail|note|keys?|"
    "ball|bucket|habit|tires|stones?|pebbles?|door|gate|wall|ground|table|time|process(?:es)?|server|task|job|thread|tab|"
    "session|mood|pose|"
    "deal|bargain|chord|balance|flint|breeze|photos?|pictures?|film|video|hoops|pool|message|e-?mail|town|streets?|trail|"
    "deck|spot|"
    "conversation|engine|lamp|lantern|candle|fire|port|container|target audience|deadline|limit|ceiling|projects?|"
    "problems?|issues?|questions?|challenges?|stuff|homework|topic|subject|obstacles?|poverty|injustice|climate change"
)

LEXICON = Lexicon(
    idioms=words_of(
        "(?:hit|hitting|strike|striking|kick|kicking|kill|killing|shoot|shooting|fight|fighting|attack|hack|"
        f"bash) (?:(?:the|a|an|my|your|some|this|that|of) ){{0,2}}(?:{_IDIOM_OBJECTS})",
        "fight(?:s|ing)? for|fight(?:s|ing)? against (?!him|her|it|them|the|that|these|those)|tackl(?:e|es|ing|ed) (?:a|"
        r"an|the|this|that|these|my|our|tough|hard|any|some) (?:\w+ )?(?:projects?|problems?|issues?|questions?|"
        r"challenges?|stuff|things|tasks?|homework|topic|bug)|strike (?:up|out for|home|a\b)|struck (?:up|me|a\b|by)|"
        "it (?:strikes|hits) me|hits? (?:me|us) (?:that|how)|hit (?:it off|on|upon)",
        "shoot (?:me|us|him|her|them) (?:an?|the)|shoot for|kick (?:off|back|in|out of)|kick myself|kills? me|"
        r"killing (?:me|us|it|time)|kill -?\d+|kill two birds",
        "to kill for|could kill|if looks could kill|dressed to kill|dying (?:to|for|of)|fight (?:back|off|down) (?:the |"
        r"my )?(?:tears|sleep|a yawn|laugh\w*|urge|panic|fear|cold)",
        "fight (?:the|an) urge|fighting (?:chance|fit|spirit|words)|(?:attack|fight|fighting|battle|combat) (?:scenes?|"
        "surface|rolls?|vectors?|patterns?|animations?|sequences?|styles?)",
        "(?:heart|panic|asthma|anxiety|brute[- ]force|phishing|ddos|xss|injection|replay|cyber) attacks?|"
        "attack the (?:problem|question|issue|task|bug)",
        "swing (?:by|past|round|around|open|shut)|swings? (?:both|the door)|beat around the bush|"
        r"slap(?:s|ping|ped)? (?:[\w']+ ){1,2}on the (?:back|shoulder)|smack(?:s|ing)? \w+ lips|(?:clock|bell) strikes|"
        r"strikes? (?:one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|midnight|"
        "noon)|hack(?:ing)? (?:together|around|into)|life hacks?|hackathon",
        "choke (?:up|back)|chok(?:e|ed|ing) on|dodge the (?:question|issue|draft|subject)|parry (?:the|his|"
        "her) questions?|thrust (?:it|this|them) into my (?:bag|hands?|pocket)",
        r"cut at the|hit (?:the )?(?:enter|return|save|send|submit|reload|refresh|tab|escape|space)",
        "at first (?:light|glance|sight)|remember to|don't forget|do not forget|remind me to|(?<=not )going to|(?:i'm|i am|"
        "we're|we are) (?:going to|gonna)|(?:am|is|are|was|were|be|get|got|getting|'m|'re|'s) used to|(?:am|is|are|'m|"
        "'re|'s)n?'?t? going to (?:the|a|my|bed|sleep)",
        "(?:stab|shoot|act|strike|attack) first(?: and|,)? ask (?:questions )?later|shoot(?=, i\b)|recall the (?:api|function)|"
        "long ago as|no sooner|free will|good ?will|at will|will power|last will",
        "rest of (?:my|the)|list(?:en|ens|ening|less)|table (?:in|near|by|by the|top|with)|on the table|at the table|"
        "under the table|to the table|the table",
    ),
    fight=lazy_pattern(rf"(?<![\w'])(?:{'|'.join(_FIGHT_PHRASES)}|{_VERBS})(?![\w])"),
    not_verbs=lazy_pattern(
        r"(?:^|\W)(?:an?|the|this|that|these|those|my|his|her|its|their|our|your|no|any|some|of|every|each|another|"
        "surprise|sneak|first|"
        "last|next|big|good|fair|street|sword|brute|force|about|by|in|for|against|after|before|during|without|under|two|"
        "three|more|some|hear|heard|'s)[ -]$"
    ),
    negators=words_of(
        "don'?t|do not|doesn'?t|does not|didn'?t|did not|not|never|no(?: one|body)?|none|nobody|refuse(?:s|d)? to|won'?t|"
        "will not|"
        "shouldn'?t|should not|can'?t|cannot|couldn'?t|wouldn'?t|mustn'?t|without|avoid(?:s|ing)?|stop(?:s|ped)?|"
        "instead of|rather than|"
        r"cease|against|neither|nor|isn'?t|aren'?t|ain'?t|wasn'?t|weren'?t|hate to|rather [\w ]{1,20}?than|too (?:tired|"
        "scared|weak) to|afraid to|quit|forbid|wants to|wanted to|(?:is|are) about to"
    ),
    no_negators=words_of(
        "can'?t help but|no choice but(?: to)?|not only|don'?t hesitate(?: to)?|no longer wait|without (?:a word|warning|"
        "hesitation|"
        "hesitating|thinking|a sound|delay|mercy|another word|looking)|no matter (?:what|how)|can'?t wait to|"
        "not (?:a moment|a second) too soon|never mind|why not|no mercy"
    ),
    later=words_of(
        "if|unless|in case|tomorrow|later|tonight|next (?:time|week|month|year|day)|someday|one day|when(?:ever)?|once|"
        "until|would|could|might|"
        r"what if|suppose|imagine|maybe|perhaps|plan(?:ning)? to|going to|gonna|before|ready to|(?:he|she|it|they|"
        r"you)(?:'ll| will)|(?:after|at) (?:dark|dawn|dusk|sunset|sunrise|nightfall|midnight)|(?:in (?:an?|a few|two|"
        r"three|some|\d+) (?:hours?|days?|weeks?|months?))|should we|should i|ought|"
        "wonder"
    ),
    reported=words_of(
        "stor(?:y|ies)|tales?|legends?|rumou?rs?|songs?|poems?|verses?|rhymes?|ballads?|headlines?|newspapers?|books?|"
        "inscriptions?|"
        "signs?|novels?|movies?|films?|the word|(?:he|she|they|reed|letter|note|sign|wall|stone|board|somebody|"
        "someone) (?:says?|said|reads?|shouts?|"
        "shouted|screams?|tells?|told|yells?|writes?|wrote)|reads? (?:out|aloud)|proof ?read|translate|rewrite|"
        "paraphrase|dream(?:s|ed|t|ing)?|heard (?:that|of|about)"
    ),
    past=words_of(
        "earlier|previously|formerly|last (?:time|week|month|year|night|summer|winter|autumn|spring|session|turn)|"
        "yesterday|ago|used to|back then|"
        "back in (?:the|my|our|those)|back when|the other day|in the past|at first|at the time|what happened|just now|"
        "those were the days|"
        rf"when (?!(?:will|shall|can|could|would|should|do|does|is|are|"
        rf"am)\b)(?:[\w']+ ){{1,3}}?(?:first )?(?:{_PAST_VERBS})|{_START}?never (?:once )?did|hadn'?t|if (?:i|we|you|"
        rf"he|"
        "she|they) had|didn'?t|"
        rf"(?:i|we|you|he|she|they)(?:'ve| have|'s| has) (?:never|already|ever|always) (?:{_PARTICIPLES})|"
        "(?:have|has|had) (?:i|we) (?:ever|already|never)|the (?:first|last) time (?:i|we|you|he|she|they)|that (?:time|"
        "day|night|evening|morning) (?:when|that|i|we|you|at|in)",
        "before(?= ?(?:$|[.,;:!?]))|(?:said|mentioned|came up|told|promised|once) before|that night|i(?:'ve|"
        r" have) (?:\w+ )?(?:seen|met|heard|read|been|felt|had) (?:[\w']+ ){0,6}?(?:somewhere|before|once)",
    ),
    memory=words_of(
        "remember(?:s|ed|ing)?|recall(?:s|ed|ing)?|remind me|reminds me of|forgot|forgotten|reminisce|memor(?:y|ies) of|"
        "think(?:ing)? back|"
        "look(?:ing)? back (?:on|at)|think(?:s|ing)? of (?:what|how|when|the (?:day|night|time))|takes me back|"
        "com(?:es?|ing) back to me|came back to me|(?:you|he|she|they) (?:said|told|promised|"
        "mentioned|swore)|told (?:me|us)|promised (?:me|us)|"
        r"mentioned|haunts? me|(?:i(?:'ve| have)) (?:\w+ )?(?:seen|met|heard|read) (?:[\w']+ ){0,6}?(?:somewhere|"
        r"before)|tell (?:me|us) (?:again|once more)|tell (?:me|us) about the (?:time|day|night)|the (?:time|"
        r"day|night) (?:when )?(?:i|we|you) \w+|once (?:said|told|gave|showed|mentioned)"
    ),
    past_question=any_of(
        rf"{_START}did(?:n't|nt)?\b",
        rf"\b(?:{_WH})(?: [\w']+){{0,4}}? (?:did|was|were|had|didn't|wasn't|weren't)\b",
        rf"{_START}(?:was|were|wasn't|weren't|had) (?:\w+)",
        rf"\b(?:who|what|which(?: [\w']+){{1,2}}?|whose(?: [\w']+)?) (?:{_PAST_VERBS})\b",
        rf"{_START}(?:have|has|haven't|hasn't)(?!(?: [\w']+){{1,2}} (?:got|any|enough)\b(?! to\b))(?! [\w']+ (?:an?|"
        rf"the|some|no)\b)(?: [\w']+){{1,4}}? (?:{_PARTICIPLES})\b",
        rf"{_START}(?:have|has|haven't|hasn't) (?:i|we|you|he|she|it|they) (?:\w+ )?(?:{_PARTICIPLES})\b",
        rf"\b(?!when [^.!?]{{0,60}}(?:'ll| will)\b)(?:{_WH})(?: [\w']+){{0,3}}? (?:have|has) (?:i|we|you|he|she|they|"
        rf"\w+)(?: \w+)? (?:{_PARTICIPLES})\b",
        r"\b(?:what|where|why|how|who|when)'d\b|\bbecame of\b|\bwhat just\b",
        r"\b(?:how|what|who|which|what's|who's)\b(?! if| about)[^.!?]{1,40} again\b",
    ),
    player=words_of(r"i|i'(?:m|ve|d|ll)|we|we'(?:re|ve|d|ll)|me|us|my|mine|our|ours|you|you'(?:re|ve|d|ll)|your|yours"),
    others=words_of(
        r"(?:have|had|did) you (?:ever|always|never)(?: [\w']+){0,3}|(?:have|had) you (?:been|seen|heard|read|tried|eaten|"
        r"played|watched|visited|lived)(?: [\w']+){0,3}|"
        r"(?:what|how|where|who) (?:was|were) your [\w']+|when you were (?:a |very |still )?(?:young|little|small|child|"
        "kid|girl|boy)"
    ),
    future=words_of(
        rf"(?:{_WH})(?: [\w']+){{0,2}}? (?:will|shall|is going to|are (?:we|you|they) going to|'ll)|{_START}will \w+|"
        "(?:it|he|she|they|you|there|this|that) will|"
        "(?:you|he|she|they|it|there|that)'ll|will (?:it|he|she|they|you|there|happen|be)|going to|gonna|plan(?:s|"
        "ned)? to|plan(?:ning)? (?:on|to)|intend(?:s|ing)? to|"
        "tomorrow|next (?:time|week|month|year|summer|winter|spring|autumn|monday|tuesday|wednesday|thursday|friday|"
        r"saturday|sunday|release|session)|(?<!as )soon|as soon as (?:it|he|she|the \w+) \w+s|as soon as (?:we|i|they|"
        r"you) (?:can|get|are|have)|tonight|"
        "later(?: (?:today|tonight|on))?|from now on|in (?:the )?future|what happens (?:if|when)|wait (?:till|until)|"
        "sooner or later|"
        r"in (?:half )?an? (?:hour|minute|day|week)s?|(?:think|hope|suppose|believe|guess|sure) [\w' ]{1,24}? will|"
        r"(?:leave|go|start|set out|set off|meet|talk|try again|continue|begin) (?:[\w']+ ){0,2}?in the (?:morning|evening)|"
        r"let's meet|(?:meet|"
        r"leave|go|return|back|set out|come) (?:\w+ ){0,3}?at (?:dawn|dusk|sunset|sunrise|midnight|noon|nightfall)|"
        r"(?:when|after|once|if) [\w' ]{1,40}?,? ?(?:i|we)(?:'ll| will)\b|(?:i|we)(?:'ll| will) (?:never|"
        r"[\w' ]{1,40}? (?:when|after|once|if))|"
        "what (?:do|can|should) (?:we|i) do if|"
        r"what next|what's next|do next|happens? next|after that|in (?:(?:an?|half an|a few|a couple of|several|some|"
        r"two|three|four|five|six|seven|eight|ten|twelve|twenty|thirty|\d+) )(?:minutes?|hours?|days?|weeks?|months?|"
        r"years?)(?: time)?|in (?:hours?|days?|weeks?)|"
        "one day (?:i|we|you|he|she|they)|one day(?=[?.!]|$)|some ?day|when (?:you|i|we|he|she|they) grow up|"
        "once (?:the|we|i|it|he|she|"
        r"they|that) (?:\w+ ){0,4}?(?:is|are|hits?|comes?|arrives?|lifts?|ends?)|"
        "until (?:the|we|it|he|she|they|dawn|dusk|morning|night)|when is the next|remind me to|by (?:dawn|nightfall|"
        "morning|tomorrow)|the day after"
    ),
    question=any_of(
        rf"^(?:and |but |so |then |ok |oh |hey |well )?(?:{_WH}|whose)\b",
        rf"{_START}(?:do|does|did|is|are|was|were|have|has|had|can|could|would|should|will|shall|may|am)(?:n't(?= (?:i|"
        rf"we|you|he|she|it|they|the|that|this|there|my|your)\b))? (?:i|we|"
        r"you|he|she|it|they|the|that|this|there|my|your|any|anyone|\w+)\b",
        r"\bremind me\b|\btell (?:me|us)\b",
    ),
    overview=words_of(
        r"(?:list|name|show|give|tell)(?: me| us)? (?:all|every|each|everything)(?: of)?|(?:go|run) (?:through|"
        r"over) (?:everything|all)|everything (?:about|there is)|(?:write|make|draw up|work out) (?:me |"
        r"us )?an? (?:\w+ ){0,2}plan|(?:what|which) (?:\w+ )?\w+s are there|list (?:of )?(?:every|all|who|which|where|"
        r"how|"
        r"everything|my|the|our|what|out|them)|(?:complete|full|whole) (?:\w+ )?(?:list|plan|report|picture|overview|"
        "checklist|breakdown|account|inventory)|"
        "summar(?:y|ies|i[sz]e|i[sz]ing)|sum (?:it |this |everything )?up|rundown|run-down|run down|overview|recap|"
        "in detail|full detail|detailed|compare|comparison|pros and cons|"
        "checklist|step[- ]by[- ]step|point by point|one by one|item by item|take stock|stock of|who'?s who|what (?:are|"
        "were) all|everything (?:we|i|you) (?:know|have|carry|own)|every(?:thing)? (?:i'm|we're|i am|we are)|"
        r"all (?:the|my|our|of the) (?:\w+ )?(?:clues?|quests?|rules?|facts?|names?|options?|items?|places?|people|things|"
        r"characters?|dangers?|steps?|details?)|all of them\??$|timeline|(?:table|chart|list) of (?:all|every|the|my|our)|"
        r"(?:tell|show) (?:me|us) (?:[\w']+ ){0,3}every(?:one|body|thing)|"
        r"outline (?:the|all|our|my)|(?:status|situation|progress|party) report|"
        r"(?:tell|show|give|describe|explain|write|name)(?: [\w']+){0,3}? (?:all|every|each|full|complete|entire|whole)|"
        r"which (?:characters|people|quests|items|places) are|(?:in|into) (?:simple |clear )?steps|each of (?:them|the|"
        "my|our|these|those)|how far along|"
        "break(?: it| this)? down|walk me through|talk me through|differences? between|bullet points|(?:in|as) a table|"
        "itemi[sz]e|"
        r"explain (?:the )?(?:all|each|every|two|three|four|five|six|whole|\d+)|describe (?:all|each|every)|"
        "from the beginning|full (?:report|inventory|status)|inventory of"
    ),
    own_speech=words_of(r"i (?:\w+ ){0,2}(?:ask|say|tell|whisper|shout|mutter|reply|answer|murmur|call|wonder|mumble)"),
    again=lazy_pattern(
        "(?:and |do it |do that |hit it |hit him |try |one |once )?(?:again|once more|one more time|another one|encore|"
        "more)(?: harder| faster)?|keep (?:going|at it)|same again"
    ),
    filler=lazy_pattern(
        "(?>(?:ok(?:ay|ey|s)?|k+|kk|yes|yep|yeah|yea|ya|yup|y|no|nope|nah|n|hm+|mm+|mhm|uh|uhm|um+|er+|ah+|oh+|aw+|huh|"
        r"wow|whoa|woah|lol+|lmao|rofl|haha\w*|hehe\w*|xd|"
        "hello|hi+|hey+|yo|greetings|good (?:morning|evening|night|afternoon)|bye|goodbye|thank you|thanks?|thx|ty|"
        "cheers|please|sure|fine|right|alright|all right|cool|nice|great|good|"
        "okie|dokie|okey|dokey|woo+|woohoo|yay+|yippee|hooray|pfft|meh|ugh|argh|hmph|tsk|eh|aha|oho|ooh|nooo*|yesss*|"
        "awesome|perfect|amazing|interesting|indeed|true|exactly|i see|got it|gotcha|understood|noted|idk|dunno|"
        "i don'?t know|no idea|whatever|then|nothing|nvm|never ?mind|go on|go ahead|"
        "carry on|continue|proceed|next|more|so|well|are you|you|u|there|still|very|much|a lot|so much|"
        "test(?:ing)?|ping|sorry|oops|wait|brb|"
        "that'?s? (?:it|all|fine|ok|nice|great|cool)|sounds? (?:good|great|fine)|let'?s (?:go on|continue)|"
        "please (?:continue|go on)|as you (?:wish|like)|one|why not|maybe|perhaps|of course)"
        r"(?: |$)){1,6}+"
    ),
)
