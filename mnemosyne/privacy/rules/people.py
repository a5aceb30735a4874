"""Rules that find names of persons after a label.

A bare `Name:` precedes goods and places too, so more evidence of a person is needed there: a common given name, or
another label of a person nearby. A name without a label is not touched, because a story is full of them.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from mnemosyne.privacy.rules.chinese_names import (
    FAMILY_NAMES,
    GIVEN_SIGNS,
    NEVER_BEGINS,
    NEVER_ENDS,
    NO_NAMES,
    TWO_SIGN_FAMILY_NAMES,
)
from mnemosyne.privacy.rules.given_names import GIVEN_NAMES
from mnemosyne.privacy.rules.rule import CHINESE_IS, HAN, IDENTITY, IS, Rule, Signs


def is_latin_name(text: str) -> bool:
    """Return whether `text`, after a label of a person, may be a name.

    A name neither begins with a word that forms use nor ends with a word for a group.
    """
    words = re.findall(r"[^\W\d_]+", text.lower())
    return bool(words) and words[0] not in _NO_NAMES and words[-1] not in _GROUPS


def has_given_name(text: str) -> bool:
    """Return whether `text`, after a bare `Name:`, has two words or more, one of them a common given name."""
    words = re.findall(r"[^\W\d_]+", text.lower())
    return len(words) >= 2 and is_latin_name(text) and not GIVEN_NAMES.isdisjoint(words)


def is_person(text: str) -> bool:
    """Return whether `text`, after a label that is not only used for persons, has a title or a common given name."""
    return _TITLED.match(text) is not None or has_given_name(text)


def is_outside_of_a_tale(text: str, begin: int, end: int) -> bool:
    """Return whether the name at `text[begin:end]` is outside of a story's quoted speech.

    `'My name is Nobody,' said the parrot` is an example of quoted speech.
    """
    return _SAID.match(text, end) is None


def is_chinese_name(text: str) -> bool:
    """Return whether `text`, Chinese characters that begin with a family name, may be a name."""
    return text not in NO_NAMES and text[:2] not in NO_NAMES and text[-1] not in NEVER_ENDS


def is_chinese_full_name(text: str) -> bool:
    """Return whether `text` is a Chinese family name with characters that are common in given names.

    This stricter check is for names after which the text continues.
    """
    begin = 2 if text.startswith(TWO_SIGN_FAMILY_NAMES) else 1
    given = text[begin:]
    return is_chinese_name(text) and bool(given) and all(sign in GIVEN_SIGNS for sign in given)


def is_no_refusal(text: str) -> bool:
    """Return whether `text`, after `姓名：`, is a name and not a word of forms, such as 不详 or 必填."""
    return text not in NO_NAMES and text[0] not in NEVER_BEGINS and is_latin_name(f"{text}x")


_SAID = re.compile(
    r"[\w '’-]{0,40}[,.!?]?[\"'”’][ ]?(?:(?:the|he|she|they|it|[A-Z]\w{1,20})[ ])?(?:\w{1,20}[ ])?"
    r"(?:said|says|asked|cried|replied|answered|whispered|shouted|laughed|announced|growled|murmured)\b"
)
_TITLED = re.compile(r"(?:Mrs?|Ms|Miss|Mx|Dr|Prof|Herr|Frau|Mme|Sra?)\.?[ ]")
_FORM_WORDS = """
a ah all alright an and any anonymous are as at be blank by can customer default do does email error false first for from full
guest has he hello her here hi his how i id if in invalid is it last many may my n na name new no none not null number
of off ok on one optional or our owner patient pending phone please read required see she some string tba tbd test
thank thanks that the their there they this title to true unknown user var was we what when where which who why will
ah dear good hey oh well
with yes you your monday tuesday wednesday thursday friday saturday sunday
"""
_NO_NAMES = frozenset(_FORM_WORDS.split())
_GROUP_WORDS = """
ag agency associates association bank board bureau clinic club college committee company corp corporation council crew
department desk division education foundation gmbh group holdings hospital house inc institute limited llc llp
logistics ltd ministry office partners plc portal program school service services society solutions sons studio
systems team traders trust union university
"""
_GROUPS = frozenset(_GROUP_WORDS.split())
"""Last words of a name that does not belong to a person."""
_TITLE = r"(?:(?:Mrs?|Ms|Miss|Mx|Dr|Prof|Sir|Herr|Frau|Mme|Sra?|Señora?)\.?[ ]){0,2}"
_WORD = r"(?:\p{Lu}(?:\.|[\p{L}'’-]{0,30})(?![\p{L}\d]|[ ]?[:=]))"
_LINK = r"(?:[ ](?:van|von|der|den|de|del|della|da|di|dos|du|la|le|bin|ibn|al|el|ter|zu|y|e)){0,3}"
_LOWER = r"(?:(?:al|el|bin|ibn|van|von|de|di|da|le|la|d)[-'’]\p{Lu}[\p{L}'’-]{1,30})"
_MORE = rf"(?:{_LINK}[ ](?:{_WORD}|{_LOWER})|,[ ]{_WORD}(?=[^\p{{L}}]|\Z)|/{_WORD})"
_NAME = rf"({_TITLE}{_WORD}{_MORE}{{0,4}})"
_FULL_NAME = rf"({_TITLE}{_WORD}{_MORE}{{1,4}}|(?:(?:Mrs?|Ms|Miss|Mx|Dr|Prof|Herr|Frau|Mme)\.?[ ]){{1,2}}{_WORD})"
_PARTS = r"[ _-]?"
_ROLES = (
    r"patient|customer|client|recipient|applicant|card[ _-]?holder|account[ _-]?(?:holder|owner)|"
    r"policy[ _-]?holder|contact[ _-]?person|"
    r"emergency[ _-]?contact|next[ _-]of[ _-]kin|employee|tenant|landlord|passenger|guest|student|"
    r"insured(?: party)?|beneficiary|caller|payee|"
    r"sender|borrower|claimant|defendant|plaintiff|guardian|spouse|visitor|donor|consignee|addressee|signatory|"
    r"attn|att|signed by|"
    r"bill(?:ed)? to|sold to|prepared for|c/o"
)
_MORE_ROLES = (
    r"witness(?: statement of)?|interview(?:ee|er)|complainant|attendee|participant|candidate|subscriber|resident|occupant|"
    r"home[ _-]?owner|owner|proprietor|deceased|victim|suspect|trustee|executor|heir|carer|caretaker|trainee|"
    r"(?:booked|reported|requested|approved|submitted|filed|witnessed|received|referred|examined|prepared|completed) by|signed|"
    r"issued to|payable to|registered to|name of (?:next of kin|contact)|author of the (?:complaint|report)|"
    r"(?:nurse|doctor|physician|teacher|officer|manager|clerk|driver)(?: (?:on (?:duty|call)|in charge|of record))|"
    r"(?:attending|treating|family|responsible) (?:physician|doctor|nurse)|physician|surgeon|dentist|therapist|case ?worker"
)
_RELATIVES = (
    r"husband|wife|partner|son|daughter|mother|mum|mom|father|dad|brother|sister|child|boss|landlord|doctor|"
    r"neighbou?r|flatmate|roommate|fianc[eé]e?|girlfriend|boyfriend|manager|colleague"
)
_MADE_BY = (
    r"(?:book|report|request|approv|submitt|fil|witness|receiv|referr|examin|prepar|complet|order|collect|inspect|"
    r"verifi|review|"
    r"interview|treat|admitt|discharg|deliver|register|enter|check)ed by|paid by"
)
_ARTISTS = (
    r"author|director|composer|singer|actor|writer|painter|producer|character|player|monster|winner|president|emperor|inventor|"
    r"founder|illustrator|translator|editor|publisher|creator|narrator|performer|artist|novelist|musician|magician|comedian"
)
_GREETING = r"(?i:hi|hello|hey|good (?:morning|afternoon|evening))(?i:[ ](?:there|team|all))?[,.!]{0,2}[ \n]"
_CLOSING = (
    r"(?i:(?:(?:kind(?:est)?|best|warm(?:est)?|with (?:kind|best)) )?regards|(?:yours )?(?:sincerely|faithfully|truly)(?: yours)?|"
    r"best wishes|respectfully(?: yours)?|many thanks|with thanks|mit freundlichen grüßen|cordialement|saludos cordiales)"
)
_SHORT_CLOSING = r"(?i:cheers|thanks|thank you|all the best|take care|best|yours|love)"
_NAME_LABELS = (
    rf"(?:full|first|last|given|family|middle|maiden|birth|legal|real|contact|father|mother|"
    rf"spouse){_PARTS}names?|sur{_PARTS}?name|"
    rf"(?:{_ROLES})(?:['’]s)?{_PARTS}(?:full[ _-]?)?name|contact[ _-]?person|account[ _-]?holder|card[ _-]?holder|"
    r"name of (?:the )?(?:insured|patient|applicant|deceased|child|owner|parent|guardian|spouse|employee|"
    r"student|tenant|account holder)"
)
_PERSONAL = (
    r"(?i:phone|mobile|tel|e-?mail|dob|birth|ssn|passport|address|id[ _-]?(?:card|no|number)|mrn|diagnosis|"
    r"电话|手机|邮箱|身份证|地址|住址|出生|性别)"
)

_FAMILY = rf"(?:{'|'.join(TWO_SIGN_FAMILY_NAMES)}|[{FAMILY_NAMES}])"
_AFTER = rf"(?![{HAN}·])"
_CHINESE = rf"({_FAMILY}[{HAN}]{{1,2}})"
_PARTED = rf"([{HAN}]{{1,8}}(?:·[{HAN}]{{1,8}}){{1,3}})"
_SPELLED = rf"({_FAMILY}[{HAN}]{{1,2}}?)"
"""For a name after which the text continues: as few signs as the following pattern allows."""
_GOES_ON = (
    r"(?=先生|女士|小姐|老师|医生|大夫|教授|经理|同学|同志|师傅|阿姨|叔叔|反映|来电|致电|表示|声称|称|说|自愿|签[字名]|正在|"
    r"要求|申请|投诉|"
    r"报案|负责|购买|预订|愿意|承诺|委托|授权|的(?:电话|手机|邮箱|身份证)|今年|现年|昨|今|于|因|在|已|将|会|到|系|请假|今天|"
    r"明天|下午|上午|同意|是)"
)
_CHINESE_ROLES = (
    r"患者|病人|收件人|收货人|寄件人|发件人|联系人|客户|租客|(?<![客用])户名|开户人|持卡人|投保人|被保险人|"
    r"受益人|申请人|学生|家长|签名|签字|经办人|法定代表人|法人代表|法人|乘客|旅客|入住人|租客|承租人|"
    r"出租人|房东|监护人|负责人|当事人|本人|车主|业主|委托人|代理人|借款人|担保人|证人|原告|被告|员工|会员|"
    r"机主|死者|预约人|就诊人|付款人|收款人|预订人|户主|住户|租户|房客|受访者|采访对象|被采访人|报案人|举报人|投诉人|反映人|报告人|"
    r"经手人|审批人|审核人|填表人|记录人|值班员|乘机人|乘车人|领取人|取件人|使用人|继承人|立遗嘱人|收票人|参会人|参保人|报名人|"
    r"学员|考生|应聘者|求职者|班主任|驾驶员|司机(?:师傅)?|(?:主治|值班|责任|主诊|接诊|家庭)?(?:医生|医师)|护士|护工|"
    r"户名|开户名|姓名"
)
_ROLE_MORE = r"(?:\d{1,2}|姓名|名字|户名|[(（][^()（）\n]{1,8}[)）])?"


def _name(pattern: str, holds: Callable[[str], bool] | None, *hints: str) -> Rule:
    return Rule(
        name="name",
        dictionary=IDENTITY,
        pattern=pattern,
        holds=holds,
        holds_at=is_outside_of_a_tale,
        group=1,
        hints=hints,
        needs=Signs.HAN if HAN in pattern else Signs.CAPITAL,
    )


NAME_RULES: tuple[Rule, ...] = (
    _name(rf"(?<![A-Za-z])(?i:{_NAME_LABELS}){IS}{_NAME}", is_latin_name, "name", "holder", "person"),
    _name(rf"(?<![A-Za-z])(?i:{_ROLES})(?:[ ]?#?\d{{1,2}})?{IS}{_FULL_NAME}(?![ ]?\p{{Ll}})", is_latin_name),
    _name(
        rf"(?<![A-Za-z])(?i:{_MORE_ROLES})(?:[ ]?#?\d{{1,2}})?(?:['’]s)?(?:[ _-]?name)?{IS}{_FULL_NAME}(?![ ]?\p{{Ll}})",
        is_latin_name,
    ),
    _name(rf"(?<![A-Za-z])(?i:{_MADE_BY})(?:{IS}|[ ]){_FULL_NAME}", is_latin_name, " by"),
    # Any label made of a person's activity or property, if the value is the whole field.
    _name(
        r"(?:\A|(?<=[\n,;|>({\"\t]))[ ]{0,3}(?i:(?:[a-z'’-]{1,20}[ _-]){0,3}?"
        rf"(?!(?:{_ARTISTS})s?\b)[a-z]{{2,16}}(?:ee|holder|keeper|ist|ian|man|woman|person|owner|ant|ent|er|or))"
        rf"(?:[ ]\d{{1,2}})?{IS}{_FULL_NAME}(?=[ \t]{{0,3}}(?:[\n,;|()\"}}<]|\.(?:\s|\Z)|\Z))",
        is_person,
    ),
    _name(
        r"(?:\A|(?<=[\n,;|>({\"\t]))[ ]{0,3}(?i:(?:[a-z'’-]{1,20}[ _-]){0,3}?[a-z]{2,16}(?:ee|holder|keeper))"
        rf"(?:[ ]\d{{1,2}})?{IS}{_FULL_NAME}(?=[ \t]{{0,3}}(?:[\n,;|()\"}}<]|\.(?:\s|\Z)|\Z))",
        is_latin_name,
    ),
    _name(
        rf"(?<![A-Za-z])(?i:(?:patient|client|tenant|guest|visitor|applicant)(?: [a-z]{{2,9}}){{1,2}})[:]?{IS}{_FULL_NAME}",
        is_person,
    ),
    _name(
        r"(?:\A|(?<=[\n.!?])[ ]?)(?i:employee|student|guest|client|customer|patient|driver|tenant)"
        rf"[ ]{_FULL_NAME}(?=[ ](?:was|has|is|did|called|came)\b)",
        is_person,
    ),
    _name(
        rf"(?<![A-Za-z])(?i:surname|forename|(?:first|last|full|family|given) name)[ ]{{1,2}}{_NAME}(?=[,;\n|]|\Z)",
        is_latin_name,
        "name",
    ),
    _name(
        r"(?<![A-Za-z])(?i:(?:account|policy|booking|reservation|ticket|contract|lease|invoice|card|table|room)s?\b[^.\n]{0,24}? "
        rf"(?:in|under) the name(?: of)?)[ ]{_FULL_NAME}",
        is_latin_name,
        "the name",
    ),
    _name(
        r"(?<![A-Za-z])(?i:witness statement|deposition|testimony|medical records?|discharge summary|curriculum vitae|"
        rf"personnel file|employment contract)[ ](?:of|for)[ ]{_FULL_NAME}",
        is_latin_name,
    ),
    _name(rf"(?:\A|(?<=[\n.:,])[ ]?)I,[ ]{_FULL_NAME}(?=,[ ]\p{{Ll}})", is_latin_name, "i, "),
    _name(
        rf"(?:\A|(?<=\n))(?i:hi|hello|hey|dear)[ ]{_FULL_NAME}(?=[,!:]|[ \t]{{0,3}}(?:\n|\Z))",
        is_latin_name,
        "h",
        "dear",
    ),
    # Without a colon: `Patient Imogen Farquhar, age 43`.
    _name(
        r"(?:(?<=[\n.;:(])[ ]?|\A)(?i:(?:the )?(?:patient|insured(?: person)?|passenger|tenant|claimant|defendant|plaintiff|"
        r"applicant|"
        rf"policy ?holder|account ?holder|beneficiary|pupil|resident|complainant|witness))[ ]{_FULL_NAME}"
        r"(?=[,;.()\n]|\Z|[ ](?:\(|aged?\b|was\b|has\b|reports?\b|states?\b|presented\b))",
        is_latin_name,
    ),
    _name(
        rf"(?:\A|(?<=[\n.,!]))[ \t]{{0,3}}{_CLOSING}[,.!]?[ \t]{{0,3}}\n{{0,2}}[ \t]{{0,3}}{_FULL_NAME}(?![ ]?\p{{Ll}})",
        is_latin_name,
    ),
    _name(
        rf"(?:\A|(?<=\n))[ \t]{{0,3}}(?:{_CLOSING}|"
        rf"{_SHORT_CLOSING})[,.!]?[ \t]{{0,3}}\n{{1,2}}[ \t]{{0,3}}{_NAME}(?=[ \t]{{0,3}}(?:\n|\Z))",
        is_latin_name,
    ),
    _name(
        rf"{_GREETING}[^\n.!?]{{0,20}}?(?i:i['’]m|i am|this is|it['’]s)[ ]{_FULL_NAME}",
        is_latin_name,
        "hi",
        "hey",
        "hello",
        "good ",
    ),
    _name(
        rf"(?:\A|(?<=[\n.!?])[ ]?)(?i:i['’]m|i am)[ ]{_FULL_NAME}"
        r"(?=,?[ ](?:and[ ])?(?:I\b|calling\b|writing\b|from\b|your\b|the (?:new )?(?:tenant|owner|patient)\b))",
        is_latin_name,
        "i'm",
        "i’m",
        "i am",
    ),
    _name(rf"(?i:this is)[ ]{_FULL_NAME}(?=,?[ ](?:calling|speaking|writing)\b)", is_latin_name, "this is"),
    _name(
        rf"(?<![A-Za-z])(?i:(?:my|our) (?:{_RELATIVES})(?:['’]s (?:full )?name(?:['’]s|[ ]is)|[ ]is (?:called|named)))[ ]{_NAME}",
        is_latin_name,
        "my ",
        "our ",
    ),
    _name(
        r"(?<![A-Za-z])(?i:your (?:driver|doctor|nurse|agent|adviser|advisor|consultant|technician|teacher|landlord|therapist|"
        r"dentist|host|contact|courier|interpreter|case ?worker|account manager)(?: (?:today|tomorrow|tonight))?(?:[:]|[ ]is|"
        rf"[ ]will be))[ ]{_FULL_NAME}",
        is_latin_name,
        "your ",
    ),
    _name(
        r"(?<![A-Za-z])(?i:(?:certificate|diploma|award) (?:is |was )?(?:hereby )?(?:awarded|presented|given|issued) to|"
        r"certif(?:y|ies) that|"
        rf"(?:che(?:que|ck)s? |made )(?:be )?(?:made )?(?:out|payable) to|statement (?:of|by) witness|appointment (?:with|"
        rf"for))[ ]{_FULL_NAME}",
        is_latin_name,
        "certif",
        "diploma",
        "award",
        " to ",
        "statement",
        "appointment",
    ),
    _name(
        r"(?<![A-Za-z])(?:Dr|Prof|Mrs?|Ms|Miss|Nurse)\.?[ ]"
        rf"({_WORD}{_MORE}{{1,3}})(?=[ ](?:will (?:see|call|visit|examine) you|is on duty|has been assigned))",
        is_latin_name,
    ),
    _name(
        rf"\|[ \t]{{0,9}}(?i:(?:full[ ])?name)[ \t]{{0,9}}\|[ \t]{{0,9}}{_FULL_NAME}[ \t]{{0,9}}\|",
        has_given_name,
        "name",
    ),
    _name(rf"<(?i:(?:first|last|full|given|family|middle)[_-]?name|surname)>[ ]?{_NAME}[ ]?</", is_latin_name, "name>"),
    _name(rf"(?<![A-Za-z])(?i:attn|c/o|dear)[:.]?[ ]{_FULL_NAME}", is_latin_name, "attn", "c/o"),
    _name(
        r"(?<![A-Za-z])(?i:dear|billed to|bill to|sold to|attn|signed by)[:.]?[ ]"
        rf"(?:(?:Mrs?|Ms|Miss|Mx|Dr|Prof|Herr|Frau|Mme)\.?[ ]){{1,2}}({_WORD}{_MORE}{{0,3}})",
        is_latin_name,
        "dear",
        "to ",
        "attn",
        "signed",
    ),
    _name(rf"(?<![A-Za-z])(?i:my (?:full )?name(?:['’]s|[ ]is)[:]?)[ ][\"“]?{_NAME}", is_latin_name, "my "),
    _name(rf"(?<![A-Za-z])(?i:(?:you (?:can|may) )?call me)[ ]{_FULL_NAME}", is_latin_name, "call me"),
    _name(
        rf"(?:(?<=[\n,;|{{(\t\"'>])|(?<=[,;|{{(>][ ])|\A[ ]{{0,8}})[\"']?(?i:name){IS}{_FULL_NAME}",
        has_given_name,
        "name",
    ),
    _name(
        rf"(?:(?<=[\n,;|{{(\t\"'>])|(?<=[,;|{{(>][ ])|"
        rf"\A[ ]{{0,8}})[\"']?(?i:name){IS}{_NAME}(?=[^{{}}\n]{{0,120}}{_PERSONAL})",
        is_latin_name,
        "name",
    ),
    _name(
        rf"姓名{CHINESE_IS}([{HAN}]{{2,4}}|[{HAN}]{{1,8}}(?:·[{HAN}]{{1,8}}){{1,3}}|"
        rf"{_TITLE}{_WORD}{_MORE}{{0,3}}){_AFTER}",
        is_no_refusal,
        "姓名",
    ),
    _name(rf"(?:姓名[ \t]{{0,3}}|(?<!文)名字{CHINESE_IS}){_CHINESE}{_AFTER}", is_chinese_name, "姓名", "名字"),
    _name(
        rf"(?:{_CHINESE_ROLES}){_ROLE_MORE}(?:{CHINESE_IS}|[ \t]{{0,3}})([{FAMILY_NAMES}][{HAN}]{{1,2}}|"
        rf"(?:{'|'.join(TWO_SIGN_FAMILY_NAMES)})[{HAN}]{{1,2}}){_AFTER}",
        is_chinese_name,
    ),
    _name(rf"(?:{_CHINESE_ROLES}){_ROLE_MORE}(?:{CHINESE_IS}|[ \t]{{0,3}}){_PARTED}{_AFTER}", None, "·"),
    _name(rf"(?:{_CHINESE_ROLES}){_ROLE_MORE}{CHINESE_IS}{_FULL_NAME}", is_latin_name),
    _name(
        rf"(?:{_CHINESE_ROLES}|本人|兹证明){_ROLE_MORE}(?:{CHINESE_IS}|[ \t]{{0,3}}){_SPELLED}{_GOES_ON}",
        is_chinese_full_name,
    ),
    _name(rf"(?<![A-Za-z])(?i:{_NAME_LABELS}){IS}{_CHINESE}{_AFTER}", is_chinese_name, "name", "holder", "person"),
    _name(
        rf"(?:您好|你好|喂)[，,!！。~ ]{{0,2}}(?:我是|这里是){_SPELLED}(?![{HAN}·])", is_chinese_full_name, "好", "喂"
    ),
    _name(rf"(?:\A|(?<=[，,。！!\n ]))我是({_FAMILY}[{HAN}]{{2}})(?=[，,。!！\n]|\Z)", is_chinese_full_name, "我是"),
    # Any label made of a person's activity or property, if the value is the whole field.
    _name(
        rf"(?=[{HAN}])(?:\A|(?<=[\n，,；;。 |(（])|(?<![{HAN}]))"
        rf"(?![{HAN}]{{0,6}}(?:作者|译者|主持人|创始人|发明人|诗人|词人|主人公|"
        rf"[男女]主|英雄|记者|学者|商人))"
        rf"[{HAN}]{{0,6}}(?:[人员者户方师生长亲]|配偶|丈夫|妻子|孩子|家属|子女|(?:曾用|真|"
        rf"本)名){_ROLE_MORE}[\"'”’】]?[ ]?[:：][ ]?{_CHINESE}{_AFTER}",
        is_chinese_full_name,
    ),
    _name(rf"(?:我的?|[他她]的?)?(?:名字叫|真名是?叫?|曾用名是?){_CHINESE}{_AFTER}", is_chinese_full_name, "名"),
    _name(
        rf"(?:祝好|敬礼|商祺|谢谢|祝安|此致)[!！。]?[ \t]{{0,3}}\n{{1,2}}[ \t　]{{0,9}}{_CHINESE}(?=[ \t]{{0,3}}(?:\n|\Z|敬?上))",
        is_chinese_full_name,
        "\n",
    ),
    _name(rf"叫我{_SPELLED}(?=就[好行]|吧|即可)", is_chinese_full_name, "叫我"),
    _name(rf"(?:我叫|我的名字[是叫])[ \t]?{_CHINESE}{_AFTER}", is_chinese_name, "我"),
    _name(rf"(?:我叫|我的名字[是叫])[ \t]?{_PARTED}{_AFTER}", None, "·"),
    _name(rf"(?:尊敬|亲爱)的{_CHINESE}(?=女士|先生|老师|教授|经理|同学|小姐|医生)", None, "敬的", "爱的"),
    _name(
        rf"(?<=[{{,\[ \t])\"(?i:name)\"[ ]?:[ ]?\"{_CHINESE}\"(?:(?=[^{{}}]{{0,160}}{_PERSONAL})|"
        rf"(?<={_PERSONAL}[^{{}}]{{0,160}}))",
        is_chinese_name,
        "name",
    ),
)
