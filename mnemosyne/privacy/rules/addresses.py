"""Rules that find postal addresses: addresses after a label, and streets with their town.

Not every address is private: a guide names the addresses of museums and hotels. The words around an address decide whether
it is removed. The address stays if the words are about a place that is open to all, and not about anybody's home.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from mnemosyne.core.lazy_patterns import lazy_pattern
from mnemosyne.privacy.rules.chinese_names import FAMILY_NAMES
from mnemosyne.privacy.rules.rule import CHINESE_IS, HAN, IDENTITY, IS, Rule, Signs

_BESIDE_CHARS = 60
"""Number of characters around an address whose words count, within its line."""


def is_latin_address(text: str) -> bool:
    """Return whether `text`, after a label of an address, has a number and a name with a capital letter."""
    return re.search(r"\d", text) is not None and re.search(r"[^\W\d_a-z][^\W\d_]{2}", text) is not None


def is_private_place(text: str, begin: int, end: int) -> bool:
    """Return whether the address at `text[begin:end]` may be a person's.

    The result is false if the words around the address are about a place that is open to all, and not about anybody's home.
    """
    before = text[max(0, begin - _BESIDE_CHARS) : begin].rpartition("\n")[2]
    after = text[end : end + _BESIDE_CHARS].partition("\n")[0]
    beside = f"{before}\n{after}"
    if _SOMEBODY.search(beside):
        return True
    return not (_OPEN_TO_ALL.search(beside) or _SITS_AT.search(before) or _TITLE_BEFORE.search(before))


_SOMEBODY = lazy_pattern(
    r"(?i:\b(?:i|i['’]m|me|my|his|her|their|home|house|lives?|lived|living|resid\w{1,6}|moved|patient|tenant|tenancy|landlord|"
    r"customer|client|deliver\w{0,6}|ship\w{0,6}|send|sent|mail\w{0,3}|bill\w{0,3}|invoice|recipient|sender|parcel|package|"
    r"order|courier|applicant|account|dob|born|ssn|passport|phone|mobile|email|family|flat|apartment|neighbou?rs?|emergency|"
    r"dear|mrs?|ms)\b)|"
    r"我|住(?!宿|持)|家庭|收货|收件|寄|快递|包裹|外卖|户籍|户口|患者|病人|客户|身份证|业主|租|上门|送到|送往|送货|搬|姓名|"
    r"手机|生日|"
    r"出生|配送|派送|发货|女士|先生|本人|员工|房东|邻居|邮箱|紧急"
)
_OPEN_TO_ALL = lazy_pattern(
    r"(?i:\b(?:museum|galler(?:y|ies)|cathedral|church|chapel|abbey|temple|monastery|mosque|synagogue|shrine|pagoda|library|hotel|"
    r"hostel|inn|restaurant|bistro|caf[eé]|bakery|pub|theat(?:er|re)|cinema|opera|concert|park|gardens?|zoo|aquarium|castle|"
    r"fort|fortress|palace|monument|memorial|tower|stadium|arena|market|mall|shop|store|boutique|bookshop|university|"
    r"observatory|school|college|hospital|office|headquarters|showroom|factory|venue|town hall|city hall|embassy|station|"
    r"airport|pier|bus \d{1,3}|tram|metro|subway|admission|free entry|entrance|"
    r"tickets?|tours?|opening hours|hours|opens?|reopened|open(?:ing)? (?:daily|from|every|until|on|\d)|closed on|visit(?:ors?)?|"
    r"sights?|exhibitions?|exhibits|per night|rooms from|breakfast|dates from|dates back|built in|founded in|listed building)\b)|"
    r"博物|美术馆|纪念馆|图书馆|展览|展馆|[馆寺庙宫殿塔陵亭阁祠府店园湖](?=[，,：:(（]|$)|故居|遗址|景区|景点|风景|名胜|"
    r"公园|乐园|动物园|植物园|"
    r"教堂|天主堂|长城|大学|学院|酒店|宾馆|客栈|旅馆|民宿|饭店|餐厅|餐馆|面馆|咖啡|茶馆|酒吧|商场|超市|书店|剧院|剧场|影院|"
    r"体育|广场|"
    r"车站|地铁|公交|门票|票价|开放|营业|闭馆|开馆|人均|免费|参观|游玩|游览|游客|旅游|建于|始建|服务中心|办理|报名|总部|"
    r"门店|专卖|大排档|少年宫|茶园|农庄"
)
_SITS_AT = lazy_pattern(rf"[{HAN})）](?<![家房屋宅宿])(?:位于|坐落于|坐落在|地处)\Z")
# `北京大学，地址：…`: the owner of the address is named first, and is not a person.
_TITLE_BEFORE = lazy_pattern(
    rf"(?:\A|[\n。；;])(?![{FAMILY_NAMES}][{HAN}]{{1,2}}[，,])[{HAN}A-Za-z0-9()（）·]{{2,30}}[，,][ ]?地址[:：]\Z"
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
_TAIL = rf"(?:(?:附|第|[{HAN}A-Za-z]{{0,14}}?[{HAN}A-Za-z])??{_COUNT}{_UNIT}?){{0,8}}"
_WITH_NUMBER = rf"[{HAN}A-Za-z·]{{1,40}}?{_WAY}[{HAN}]{{0,12}}?{_COUNT}{_UNIT}{_TAIL}"
_CHINESE_ADDRESS_LABELS = (
    r"(?:收货|寄件|收件|快递|联系|通讯|通信|家庭|公司|单位|户籍|注册|办公|居住|邮寄|取件|配送|送货|详细|常住|现|"
    r"经营|户口所在|上门)?(?:地址|住址|地点|住所)|住址|居住地|户口所在地|"
    r"户籍所在地|门牌|我?家?住在?|家[在住]在?|放[到在至]|寄到|寄往|送到|送往|发货至|发往|坐落于"
)


def _address(pattern: str, *hints: str, holds: Callable[[str], bool] | None = None) -> Rule:
    return Rule(
        name="address",
        dictionary=IDENTITY,
        pattern=pattern,
        holds=holds,
        holds_at=is_private_place,
        group=1,
        hints=hints,
        needs=Signs.HAN if HAN in pattern else Signs.DIGIT,
    )


ADDRESS_RULES: tuple[Rule, ...] = (
    _address(rf"(?<![A-Za-z])(?i:{_ADDRESS_LABELS}){IS}(?:in |at )?{_ADDRESS}", holds=is_latin_address),
    _address(rf"(?<![A-Za-z])(?i:{_ADDRESS_LABELS}|{_PLACE_VERBS})[ ]{_ADDRESS}", holds=is_latin_address),
    # A street with its code or its town, at any place.
    _address(
        rf"(?<![\p{{L}}\d.,:/-])((?:(?:Flat|Unit|Apt|"
        rf"Suite)\.?[ ][\dA-Z]{{1,5}},[ ])?{_HOUSE}(?:{_PIECE}[ ]){{1,4}}(?:{_STREETS})\.?"
        rf"(?:,?[ ](?:[NSEW]|NE|NW|SE|SW)\b)?(?:,?[ ](?:Apt|Suite|Ste|Unit|Flat|Floor|Fl|Room|#)\.?[ ]?[\w-]{{1,8}})?"
        rf"(?:,?[ ]\p{{Lu}}[\p{{L}}'’.-]{{1,30}}){{1,4}},?[ ]{_CODE})(?![\p{{L}}\d])"
    ),
    _address(
        rf"(?i:(?<![a-z])(?:at|to|on|from|near|of))[ ]({_HOUSE}(?:{_PIECE}[ ]){{1,3}}(?:{_PLAIN_STREETS})\b\.?)(?![\p{{L}}\d-])"
    ),
    _address(rf"(?:\A|(?<=\n))({_HOUSE}(?:{_PIECE}[ ]){{1,3}}(?:{_PLAIN_STREETS})\b\.?)(?![\p{{L}}\d-]|[ ]\p{{Ll}})"),
    _address(
        rf"((?i:p\.?[ ]?o\.?[ ]?box)[ ]\d{{1,6}}(?:,[ ]\p{{Lu}}[\p{{L}}'’. -]{{1,30}}(?:,?[ ]{_CODE})?)?)(?![\p{{L}}\d])",
        "box",
    ),
    _address(rf"((?:{_REGION})(?:省|市|自治区|壮族自治区|特别行政区)?{_WITH_NUMBER})"),
    _address(rf"(?:{_CHINESE_ADDRESS_LABELS})(?:{CHINESE_IS}|[ \t]{{0,3}})({_WITH_NUMBER})"),
    _address(
        rf"(?:地址|住址|居住地|所在地)(?:{CHINESE_IS}|[ \t]{{0,3}})((?:[{HAN}]{{2,8}}?(?:省|自治区|市|自治州|"
        rf"盟|区|县|旗|镇|乡|街道)){{2,5}}"
        rf"[{HAN}0-9]{{0,20}}?)(?![{HAN}0-9])",
        "址",
        "居住地",
        "所在地",
    ),
)
