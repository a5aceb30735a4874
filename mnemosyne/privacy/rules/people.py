"""Rules for what a text says of a person under a label: names, addresses, dates of birth. Pure.

`Name:` alone stands before goods and places too, so that more must speak for a person: a common given name, or another label
of a person near it. A name without a label is left alone: a tale is full of them.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from mnemosyne.privacy.rules.chinese_names import FAMILY_NAMES, NEVER_ENDS, NO_NAMES, TWO_SIGN_FAMILY_NAMES
from mnemosyne.privacy.rules.given_names import GIVEN_NAMES
from mnemosyne.privacy.rules.rule import IDENTITY, Rule


def is_latin_name(text: str) -> bool:
    """Return whether what follows a label of a person may be a name: it does not begin with a word of forms and prose."""
    words = re.findall(r"[^\W\d_]+", text.lower())
    return bool(words) and words[0] not in _NO_NAMES


def has_given_name(text: str) -> bool:
    """Return whether what follows a bare `Name:` has two words or more, one of them a common given name."""
    words = re.findall(r"[^\W\d_]+", text.lower())
    return len(words) >= 2 and is_latin_name(text) and not GIVEN_NAMES.isdisjoint(words)


def is_chinese_name(text: str) -> bool:
    """Return whether Chinese signs that begin with a family name may be a name."""
    return text not in NO_NAMES and text[:2] not in NO_NAMES and text[-1] not in NEVER_ENDS


def is_no_refusal(text: str) -> bool:
    """Return whether what follows `姓名：` is a name and not a word of forms, such as 不详 or 必填."""
    return text not in NO_NAMES and is_latin_name(f"{text}x")


def is_latin_address(text: str) -> bool:
    """Return whether what follows a label of an address has a number and a name with a capital letter."""
    return re.search(r"\d", text) is not None and re.search(r"[^\W\d_a-z][^\W\d_]{2}", text) is not None


_FORM_WORDS = """
a all an and any anonymous are as at be blank by can customer default do does email error false first for from full
guest has he hello her here hi his how i id if in invalid is it last many may my n na name new no none not null number
of off ok on one optional or our owner patient pending phone please read required see she some string tba tbd test
thank thanks that the their there they this title to true unknown user var was we what when where which who why will
with yes you your monday tuesday wednesday thursday friday saturday sunday
"""
_NO_NAMES = frozenset(_FORM_WORDS.split())
_TITLE = r"(?:(?:Mrs?|Ms|Miss|Mx|Dr|Prof|Sir|Herr|Frau|Mme|Sra?|Señora?)\.?[ ]){0,2}"
_WORD = r"(?:\p{Lu}(?:\.|[\p{L}'’-]{0,30})(?![\p{L}\d]|[ ]?[:=]))"
_LINK = r"(?:[ ](?:van|von|der|den|de|del|della|da|di|dos|du|la|le|bin|ibn|al|el|ter|zu|y|e)){0,3}"
_LOWER = r"(?:(?:al|el|bin|ibn|van|von|de|di|da|le|la|d)[-'’]\p{Lu}[\p{L}'’-]{1,30})"
_MORE = rf"(?:{_LINK}[ ](?:{_WORD}|{_LOWER})|,[ ]{_WORD}(?=[^\p{{L}}]|\Z)|/{_WORD})"
_NAME = rf"({_TITLE}{_WORD}{_MORE}{{0,4}})"
_FULL_NAME = rf"({_TITLE}{_WORD}{_MORE}{{1,4}}|(?:(?:Mrs?|Ms|Miss|Mx|Dr|Prof|Herr|Frau|Mme)\.?[ ]){{1,2}}{_WORD})"
_IS = r"[\"'”’]?[ \t]{0,3}(?:\([^()\n]{0,30}\)[ \t]{0,2})?(?:[:=]|[–-][ \t]|->|is[ \t])[ \t]{0,3}[\"'“‘]?"
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

_HAN = r"\u4e00-\u9fff"
_FAMILY = rf"(?:{'|'.join(TWO_SIGN_FAMILY_NAMES)}|[{FAMILY_NAMES}])"
_AFTER = rf"(?![{_HAN}·])"
_CHINESE = rf"({_FAMILY}[{_HAN}]{{1,2}})"
_CHINESE_ROLES = (
    r"患者|病人|收件人|收货人|寄件人|发件人|联系人|客户|(?<![客用])户名|开户人|持卡人|投保人|被保险人|"
    r"受益人|申请人|学生|家长|签名|签字|经办人|法定代表人|法人代表|法人|乘客|旅客|入住人|租客|承租人|"
    r"出租人|房东|监护人|负责人|当事人|本人|车主|业主|委托人|代理人|借款人|担保人|证人|原告|被告|员工|会员|"
    r"机主|死者|预约人|就诊人|付款人|收款人"
)
_CHINESE_IS = r"[\"'”’】]?[ \t]{0,3}(?:[:：=]|是|为)[ \t]{0,3}[\"'“‘]?"


def _name(pattern: str, holds: Callable[[str], bool] | None, *hints: str) -> Rule:
    return Rule(name="name", dictionary=IDENTITY, pattern=pattern, holds=holds, group=1, hints=hints)


_NAMES: tuple[Rule, ...] = (
    _name(rf"(?<![A-Za-z])(?i:{_NAME_LABELS}){_IS}{_NAME}", is_latin_name, "name", "holder", "person"),
    _name(rf"(?<![A-Za-z])(?i:{_ROLES}){_IS}{_FULL_NAME}(?![ ]?\p{{Ll}})", is_latin_name),
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
        rf"(?:(?<=[\n,;|{{(\t\"'>])|(?<=[,;|{{(>][ ])|\A[ ]{{0,8}})[\"']?(?i:name){_IS}{_FULL_NAME}",
        has_given_name,
        "name",
    ),
    _name(
        rf"(?:(?<=[\n,;|{{(\t\"'>])|(?<=[,;|{{(>][ ])|"
        rf"\A[ ]{{0,8}})[\"']?(?i:name){_IS}{_NAME}(?=[^{{}}\n]{{0,120}}{_PERSONAL})",
        is_latin_name,
        "name",
    ),
    _name(
        rf"姓名{_CHINESE_IS}([{_HAN}]{{2,4}}|[{_HAN}]{{1,8}}(?:·[{_HAN}]{{1,8}}){{1,3}}|"
        rf"{_TITLE}{_WORD}{_MORE}{{0,3}}){_AFTER}",
        is_no_refusal,
        "姓名",
    ),
    _name(rf"(?:姓名[ \t]{{0,3}}|(?<!文)名字{_CHINESE_IS}){_CHINESE}{_AFTER}", is_chinese_name, "姓名", "名字"),
    _name(
        rf"(?:{_CHINESE_ROLES})(?:姓名)?(?:{_CHINESE_IS}|[ \t]{{0,3}})([{FAMILY_NAMES}][{_HAN}]{{1,2}}|"
        rf"(?:{'|'.join(TWO_SIGN_FAMILY_NAMES)})[{_HAN}]{{1,2}}){_AFTER}",
        is_chinese_name,
    ),
    _name(rf"(?:我叫|我的名字[是叫])[ \t]?{_CHINESE}{_AFTER}", is_chinese_name, "我"),
    _name(rf"尊敬的{_CHINESE}(?=女士|先生|老师|教授|经理|同学|小姐|医生)", None, "尊敬的"),
    _name(
        rf"(?<=[{{,\[ \t])\"(?i:name)\"[ ]?:[ ]?\"{_CHINESE}\"(?:(?=[^{{}}]{{0,160}}{_PERSONAL})|"
        rf"(?<={_PERSONAL}[^{{}}]{{0,160}}))",
        is_chinese_name,
        "name",
    ),
)

_STREETS = (
    r"Street|St|Avenue|Ave|Road|Rd|Lane|Ln|Drive|Dr|Boulevard|Blvd|Court|Ct|Place|Pl|Terrace|Way|Close|Crescent|"
    r"Gardens?|Square|Sq|"
    r"Parkway|Pkwy|Highway|Hwy|Plaza|Row|Walk|Mews|Quay|Circle|Cir|Trail|Loop|Alley|Grove|Park|Hill"
)
_PLAIN_STREETS = r"Street|St|Avenue|Ave|Road|Rd|Lane|Ln|Drive|Dr|Boulevard|Blvd|Terrace|Parkway|Pkwy|Crescent|Mews"
_HOUSE = r"\d{1,6}[A-Za-z]?(?:[-/]\d{1,5})?[ ](?:(?:[NSEW]|NE|NW|SE|SW|North|South|East|West)\.?[ ])?"
_CODE = (
    r"(?:(?:[A-Z]{2}|NSW|VIC|QLD|TAS)[ ]\d{4,5}(?:-\d{4})?|[A-Z]{1,2}\d[A-Z\d]?[ ]\d[A-Z]{2}|"
    r"(?:[A-Z]{2}[ ])?[A-Z]\d[A-Z][ ]\d[A-Z]\d|"
    r"\d{4,6}(?:[ ]\p{Lu}[\p{L}-]{2,30})?)"
)
_PIECE = r"(?:[\p{Lu}\d#º°][\p{L}\d'’.#/º°-]{0,30})"
_REST = rf"(?:,?[ ](?:(?:de|des|la|le|los|las|du|van|der|of|the|and|am|an|im|do|da)[ ]){{0,2}}{_PIECE}){{0,14}}"
_ADDRESS = rf"({_PIECE}{_REST})"
_ADDRESS_LABELS = (
    r"(?:home|mailing|billing|shipping|delivery|postal|current|permanent|return|registered|street|residential|"
    r"business|work|my)?[ _-]?"
    r"address(?:[ _-]?line[ _-]?[12]?)?|addr|street|ship(?:ped)? to|deliver(?:ed)? to|residence|"
    r"place of residence|location of residence|property|"
    r"anschrift|adresse|domicile|dirección|domicilio|indirizzo|wohnhaft"
)
_PLACE_VERBS = (
    r"(?:i|we|she|he|they|who|patient|tenant)[ ](?:currently[ ])?(?:lives?|resides?|stays?|moved)[ ](?:at|in|to|on)|"
    r"resid(?:es|ing) at|living at|moved to|lives at"
)

_REGION = (
    r"北京|天津|上海|重庆|河北|山西|辽宁|吉林|黑龙江|江苏|浙江|安徽|福建|江西|山东|河南|湖北|湖南|广东|"
    r"海南|四川|贵州|云南|陕西|甘肃|青海|台湾|内蒙古|广西|西藏|宁夏|新疆|香港|澳门|石家庄|太原|沈阳|大连|"
    r"长春|哈尔滨|南京|苏州|无锡|常州|南通|徐州|扬州|杭州|宁波|温州|绍兴|嘉兴|金华|台州|合肥|芜湖|福州|"
    r"厦门|泉州|南昌|济南|青岛|烟台|潍坊|临沂|郑州|洛阳|武汉|宜昌|长沙|株洲|广州|深圳|珠海|佛山|东莞|中山|"
    r"惠州|汕头|南宁|桂林|海口|三亚|成都|绵阳|贵阳|昆明|大理|拉萨|西安|咸阳|兰州|西宁|银川|乌鲁木齐|"
    r"呼和浩特|包头|唐山|保定|邯郸|廊坊|大同|赣州|九江|遵义|柳州"
)
_UNIT = r"(?:号院|号楼|号(?!线)|弄|栋|幢|座|单元|室|楼|层|组|期|区|院|户|房|村|巷|附\d{1,4}号)"
_WAY = r"(?:大道|大街|路|街|道|巷|弄|胡同|里|村|镇|乡|园|苑|院|社区|小区|花园|公寓|大厦|广场|新区|开发区|屯|寨|庄)"
_COUNT = r"(?:[A-Za-z]?[0-9]{1,5}(?:[-#][0-9]{1,5}){0,4}|[一二三四五六七八九十]{1,3}(?=[号组栋幢单层期巷弄]))"
_TAIL = rf"(?:(?:附|第|[{_HAN}A-Za-z]{{0,14}}?[{_HAN}A-Za-z])??{_COUNT}{_UNIT}?){{0,8}}"
_WITH_NUMBER = rf"[{_HAN}A-Za-z·]{{1,40}}?{_WAY}[{_HAN}]{{0,12}}?{_COUNT}{_UNIT}{_TAIL}"
_CHINESE_ADDRESS_LABELS = (
    r"(?:收货|寄件|收件|快递|联系|通讯|通信|家庭|公司|单位|户籍|注册|办公|居住|邮寄|取件|配送|送货|详细|常住|现|"
    r"经营|户口所在|上门)?(?:地址|住址|地点|住所)|住址|居住地|户口所在地|"
    r"户籍所在地|门牌|我?家?住在?|寄到|寄往|送到|送往|发货至|发往|坐落于"
)


def _address(pattern: str, *hints: str, holds: Callable[[str], bool] | None = None) -> Rule:
    return Rule(name="address", dictionary=IDENTITY, pattern=pattern, holds=holds, group=1, hints=hints)


_ADDRESSES: tuple[Rule, ...] = (
    _address(rf"(?<![A-Za-z])(?i:{_ADDRESS_LABELS}){_IS}(?:in |at )?{_ADDRESS}", holds=is_latin_address),
    _address(rf"(?<![A-Za-z])(?i:{_ADDRESS_LABELS}|{_PLACE_VERBS})[ ]{_ADDRESS}", holds=is_latin_address),
    # A street with its code or its town, wherever it stands.
    _address(
        rf"(?<![\p{{L}}\d.,:/-])((?:(?:Flat|Unit|Apt|"
        rf"Suite)\.?[ ][\dA-Z]{{1,5}},[ ])?{_HOUSE}(?:{_PIECE}[ ]){{1,4}}(?:{_STREETS})\.?"
        rf"(?:,?[ ](?:[NSEW]|NE|NW|SE|SW)\b)?(?:,[ ](?:Apt|Suite|Ste|Unit|Flat|Floor|Fl|Room|#)\.?[ ]?[\w-]{{1,8}})?"
        rf"(?:,?[ ]\p{{Lu}}[\p{{L}}'’.-]{{1,30}}){{1,4}},?[ ]{_CODE})(?![\p{{L}}\d])"
    ),
    _address(
        rf"(?:(?i:(?<![a-z])(?:at|to|on|from|near|of))[ ]|\A|"
        rf"(?<=\n))({_HOUSE}(?:{_PIECE}[ ]){{1,3}}(?:{_PLAIN_STREETS})\b\.?)(?![\p{{L}}\d-])"
    ),
    _address(
        rf"((?i:p\.?[ ]?o\.?[ ]?box)[ ]\d{{1,6}}(?:,[ ]\p{{Lu}}[\p{{L}}'’. -]{{1,30}}(?:,?[ ]{_CODE})?)?)(?![\p{{L}}\d])",
        "box",
    ),
    _address(rf"((?:{_REGION})(?:省|市|自治区|壮族自治区|特别行政区)?{_WITH_NUMBER})"),
    _address(rf"(?:{_CHINESE_ADDRESS_LABELS})(?:{_CHINESE_IS}|[ \t]{{0,3}})({_WITH_NUMBER})"),
    _address(
        rf"(?:地址|住址|居住地|所在地)(?:{_CHINESE_IS}|[ \t]{{0,3}})((?:[{_HAN}]{{2,8}}?(?:省|自治区|市|自治州|"
        rf"盟|区|县|旗|镇|乡|街道)){{2,5}}"
        rf"[{_HAN}0-9]{{0,20}}?)(?![{_HAN}0-9])",
        "址",
        "居住地",
        "所在地",
    ),
)

_MONTH = r"(?:jan|feb|mar|apr|may|jun|jul|aug|sept?|oct|nov|dec)[a-z]{0,6}\.?"
_YEAR = r"(?:19|20)\d{2}"
_ANY_DATE = (
    rf"(?:{_YEAR}[-/.]\d{{1,2}}[-/.]\d{{1,2}}(?:T[\d:.]{{5,12}}Z?)?|\d{{1,2}}[-/.]\d{{1,2}}[-/.](?:{_YEAR}|"
    rf"\d{{2}})|{_YEAR}(?:0[1-9]|1[0-2])(?:[0-2]\d|3[01])|"
    rf"\d{{1,2}}(?:st|nd|rd|th)?[ ](?:of[ ])?{_MONTH},?[ ]{_YEAR}|{_MONTH}[ ]\d{{1,2}}(?:st|nd|rd|th)?,?[ ]{_YEAR}|"
    rf"{_YEAR}年\d{{1,2}}月(?:\d{{1,2}}[日号])?|[一二三四五六七八九十正腊冬]{{1,2}}月(?:初|十|廿|二|"
    rf"三)?[一二三四五六七八九十]{{1,3}}日?[，,]?[ ]?{_YEAR}年?)"
)
_BIRTH: tuple[Rule, ...] = (
    Rule(
        name="birth_date",
        dictionary=IDENTITY,
        pattern=rf"(?i)(?:(?<![a-z])(?:d\.?o\.?b\.?|(?:date|day)[ _-]?of[ _-]?birth|birth[ _-]?(?:date|day)|"
        rf"born[ ]on)(?![a-z])|出生年月日?|出生日期|生日|出生于?|"
        rf"(?<![发产学先师医新派])生于)[^\d\n一二三四五六七八九十]{{0,3}}(?:\([^()\n]{{1,16}}\))?[^\d\n一二三四五六七八九十]{{0,6}}?({_ANY_DATE})(?!\d)",
        group=1,
        hints=("b", "生"),
    ),
)

PEOPLE_RULES: tuple[Rule, ...] = (*_NAMES, *_ADDRESSES, *_BIRTH)
