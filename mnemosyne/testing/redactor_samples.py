"""Samples for the contract suite of redactors: texts with personal data (English and Chinese), and harmless texts.

All data is made up. In `SENSITIVE`, the part that must not survive is between `⟦` and `⟧`. Each `~` is removed when a
sample is read, so that no secret scanner mistakes a made-up key for a real one.
"""

from __future__ import annotations

_SENSITIVE = """
Write to ⟦anna.lee+work@example-mail.co.uk⟧ before Friday.
我的邮箱⟦zhang_san88@example.cn⟧，请查收。
mailto:⟦j.doe@sub.example.travel⟧?subject=hi
联系人：李雷<⟦lilei@example.com.cn⟧>
("⟦o-brien_1@xn--fiq228c.example⟧")
Email:⟦A.B@EXAMPLE.ORG⟧;
全角邮箱 ⟦ｗａｎｇ＠ｅｘａｍｐｌｅ．ｃｏｍ⟧ 也要去掉
he wrote⟦bob@example.io⟧他回复了
{"mail": "⟦eve\\u0040example.net⟧"}
a⟦x1@example.museum⟧
手机号⟦13800138000⟧，微信同号
请拨打⟦138-0013-8001⟧或发短信
tel:⟦+86 138 0013 8002⟧
电话（⟦+8613800138003⟧）
⟦０１０-８８８８６６６６⟧是总机
他的号码是⟦1３8００1３8００4⟧。
我的手机是⟦199 1234 5678⟧!
座机⟦0755-26543210⟧转8001
办公室⟦(021) 6543 2109⟧
客服⟦400-810-1234⟧
call me at ⟦(415) 555-2671⟧ tonight
cell ⟦415-555-2672⟧, home later
fax 1-⟦415-555-2673⟧
reach me on ⟦+44 20 7946 0958⟧
WhatsApp ⟦+1 (212) 555-0187⟧
Handy: ⟦+49 1512 3456789⟧
ring ⟦+33 6 12 34 56 78⟧
⟦+81-90-1234-5678⟧まで
phone=⟦13912345678⟧&name=x
"mobile":"⟦18612345678⟧"
隐形字符⟦138\u200b0013\u200b8005⟧也算
身份证号⟦110101199003071233⟧
身份证：⟦32010219881010002X⟧（本人）
ID ⟦310115200112310070⟧ on file
证件号码为⟦440305197511194567⟧，有效
小写⟦32010219881010002x⟧。
⟦５１０１０４１９６８０２２９０９８５⟧
老身份证⟦110105491231002⟧
my SSN is ⟦536-22-8145⟧.
SSN:⟦219-09-9998⟧
Passport No. ⟦E12345678⟧
护照号码：⟦EA1234567⟧
港澳通行证 ⟦C12345678⟧
车牌⟦京A12345⟧停在门口
绿牌⟦沪AD12345⟧
⟦粤B·8888Z⟧的车主
card ⟦4945 8073 0215 7365⟧ exp 12/29
银行卡号⟦6222997220033224539⟧
工资卡：⟦6228 8323 6405 6224 152⟧
⟦5181-9303-6426-2129⟧ is the card
Amex ⟦3749 909514 54750⟧
卡号⟦6258584719540618⟧。
IBAN ⟦GB82 WEST 1234 5698 7654 32⟧
Konto ⟦DE89370400440532013000⟧
server at ⟦203.0.113.77⟧ is down
登录IP：⟦10.23.45.67⟧
from ⟦192.168.1.23⟧:8080
来自⟦172.16.9.4⟧的请求
peer ⟦2001:db8:85a3:0:0:8a2e:370:7334⟧ left
v6 ⟦fe80::1ff:fe23:4567:890a⟧ ok
gateway ⟦fe80::1⟧ answers
AWS key ⟦AKIA~QWERTYUIOPASDF12⟧
⟦ASIA~ZXCVBNMASDFGHJ34⟧ expired
阿里云⟦LTAI~5tQwErTyUiOpAsDf⟧
腾讯云⟦AKID~z8krbsJ5yKBZQpn74WFkmLPx3⟧
git push with ⟦ghp_~16C7e42F292c6912E7710c838347Ae178B4a⟧
⟦github_pat_~11ABCDEFG0abcdefghijklmnop_qrstuvwxyz⟧
⟦glpat-~abcDEF123456ghiJKL78⟧ in CI
slack ⟦xoxb-~123456789012-abcdefABCDEF⟧
⟦sk_~live_4eC39HqLyjWDarjtT1zdp7dc⟧
⟦rk_~test_51Habc123DEF456ghi⟧ for tests
⟦sk-~proj-AbCdEf1234567890_ghIJkl⟧
密钥⟦sk-~ant-api03-AbCdEfGh12345678⟧千万别泄露
maps ⟦AIza~SyA1234567890abcdefghijklmnopqrstuv⟧
⟦hf_~AbCdEfGhIjKlMnOpQrSt⟧
⟦npm_~AbCdEfGhIjKlMnOpQrStUvWxYz0123456789⟧
⟦SG.~abcdefghijklmnopqrstuv.ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789abcdefg⟧
bot ⟦123456789:~AAabcdefghijklmnopqrstuvwxyz0123456⟧
⟦gsk_~abcdefghijklmnopqrstuvwxyz0123⟧
Authorization: Bearer ⟦mF_9.B5f-4.1JqM0nopQRST⟧
authorization: Basic ⟦QWxhZGRpbjpvcGVuIHNlc2FtZQ==⟧
jwt ⟦eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9P⟧
password: ⟦hunter2⟧
Password = "⟦Tr0ub4dor&3⟧"
DB_PASSWORD=⟦s3cr3t-value!⟧
"passwd": "⟦p4ssw0rd⟧",
my pwd is ⟦qwerty123⟧
密码是⟦abc12345⟧
登录密码：⟦Zx9!kkpQ⟧，勿外传
口令为“⟦0penSesame⟧”
验证码：⟦482913⟧，5分钟内有效
密码：⟦１２３４５６⟧
api_key: ⟦9f8e7d6c5b4a⟧
X-Api-Key: ⟦a1b2c3d4e5f60718⟧
client_secret=⟦Q2xpZW50U2VjcmV0MQ⟧
access_token = '⟦ya42-longer-token-value-77⟧'
令牌：⟦tok-2024-abcdef123456⟧
session_id=⟦9b1deb4d3b7d4bad9bdd⟧
PIN: ⟦4471⟧
postgres://⟦admin:pa55w0rd⟧@db.example.com/main
https://⟦bob:s3cret⟧@files.example.com/a.txt
redis://⟦:hunter22⟧@cache.example.com:6379/0
https://api.example.com/v1?id=7&token=⟦abcdef123456⟧
下载 https://cdn.example.cn/x?sign=1&access_token=⟦QWERTY998877⟧ 即可
https://s3.example.com/o?X-Amz-Signature=⟦0f1e2d3c4b5a69788796⟧
{"note": "call \\"⟦+86 138 0013 8009⟧\\" now"}
-----BEGIN RSA PRIVATE KEY-----⟦MIIBOgIBAAJBAKj34GkxFhD90vcNLYLInFEX6Ppy1tPf9Cnzj4p4WGeKLs1Pt8Q⟧-----END RSA PRIVATE KEY-----
身份证号 ⟦110101 1990 0307 1233⟧
身份证号：⟦一一〇一〇一一九九〇〇三〇七一二三三⟧
微信号：⟦zhangsan_88⟧
My WeChat is ⟦lilei2020⟧
QQ：⟦87654321⟧
SSN ⟦536 22 8145⟧
account number: ⟦12345678⟧
账号：⟦6217001234567890123⟧
IMEI: ⟦49-015420-323751-8⟧
MAC地址：⟦00:1A:2B:3C:4D:5E⟧
backup code: ⟦4829-1034⟧
密码是「⟦hunter2!x⟧」
password: «⟦my dog has 7 lives⟧»
AWS secret: ⟦wJalr~XUtnFEMI/K7MDENG/bPxRfiCYzExampleKey⟧
token ⟦j~q_0123456789ab_AbCdEfGhIjKlMnOpQrStUvWxYz0123456789-_AbCdE⟧
-----BEGIN OPENSSH PRIVATE KEY-----⟦b3BlbnNzaC1rZXktdjEAAAAABG5vbmUAAAAEbm9uZQ⟧ and it was cut off
"""

_HARMLESS = """
The knight keeps the sword in the north tower.
She rolled a 20 and dealt 14 points of damage.
Chapter 12, verses 3-7, page 1,204.
The train leaves at 10:45:30 on 2024-01-31.
Born 1990-03-07, died 2056-11-30.
It happened in 1938, 1949 and 1976.
Version 1.2.3.4 fixes the bug.
v2.10.0.1 is out.
Bound to 127.0.0.1 and 0.0.0.0 only.
pi is 3.14159265358979 or so
Timestamps such as 1700000000000 count milliseconds.
The order weighs 13.80013800 kg.
password: "must be at least 8 characters"
密码：“至少8位，含数字”
微信 8.0.47 更新
QQ群有100000人
IMEI号在哪里查看？
Backup codes are useful; keep them safe.
size 120 60 2400 mm
game code 415-2671
二〇二四年一月三十一日
订单号 2024 0131 0045 6789 已发货
ISBN 978-7-02-000220-7 is on the shelf.
Invoice 2024-000123 was paid.
sha256 e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855
uuid 123e4567-e89b-12d3-a456-426614174000
commit 16c7e42f292c6912e7710c838347ae178b4a
colour #1a2b3c and #ffcc00
Coordinates 39.9042, 116.4074
Ratio 16:9, score 3:2, odds 100:1
a total of 4,945,807,302 people
1234567890
0123456789012345
1111 1111 1111 1111
phone is ringing in the hall
The password is swordfish, said the guard.
What is the secret of the forest?
The token: a unit of text for a model.
max_token: 4096
total_tokens=1532
"prompt_tokens": 812, "completion_tokens": 77
Every secret is safe with me.
A key is hidden under the mat.
pin the map to the wall
He passed the basic training course in 1998.
the bearer of this letter is my friend
@alice and @bob joined the channel
Use a@ to mention and #tag to find.
user@localhost is no address of the world
see https://example.com/docs/page?id=7&lang=en#top
http://localhost:8000/health answers 200
https://example.com:8443/a/b.html
ftp://files.example.org/pub/readme.txt
s3://bucket/path/to/object.parquet
file:///usr/share/dict/words
mnemosyne://session/s1/evidence/e7
mcp://server/tool
sk-learn and sk-image are libraries
the ghp of the engine is 250
AKIA is a prefix
eyJ is how some tokens begin
lines:12-18,chars:120-260
regex:[0-9]{3}-[0-9]{2}
SELECT * FROM orders WHERE id = 42;
def area(width: int, height: int) -> int: return width * height
x = a[10:20] + b[::2]
time is 12::30 by mistake
std::vector<int> numbers;
add::cafe(b[1::2])
Foo::Bar::baz
aa:bb is a pair
IPv4 has four parts.
Section 4.2.1.7 of the manual
§1.2.3.4 applies
+1 to that idea
2 + 2 = 4, 10 - 7 = 3
-40 degrees is the same in both
call 911 in an emergency
room 415-2671
flight CA1831 at gate C57
model X-1000-2000-3
serial AB-12-CD-34
1st, 2nd, 3rd and 100th
Call me Ishmael.
The pass was closed, the word was given.
The session is over.
api: see the reference
[redacted:email] was here
[the page is blank]
银行在街角，卡在口袋里。
今天是2024年1月31日，星期三。
第12章第3节，共1204页。
他今年38岁，身高175厘米。
密码是什么？没有人知道。
他忘了口令，守卫不让进。
这把钥匙是古老的令牌。
验证码已经发送，请注意查收。
电话响了三声。
手机没电了。
身份证丢了怎么办？
护照在抽屉里。
京城里有十二座城门。
沪上人家，粤式早茶。
版本1.2.3.4已发布
版本号：2.0.1.5
速度每秒299792458米
编号000000000000000001
一共花了13800元。
气温零下15度到20度
他在3号楼2单元501室
公元前221年，秦统一六国。
圆周率约为3.1415926535
农历八月十五，中秋节
勇者等级为42，生命值是85/100
【系统】任务完成，获得经验1500点。
剑客说：“三日之后，山顶相见。”
比分是3:2，用时90分钟
网址是https://example.cn/新闻/1.html
"""


def _read(line: str) -> str:
    return line.replace("~", "").encode("utf-8").decode("utf-8").replace("\\u200b", "\u200b")


def _sensitive(line: str) -> tuple[str, str]:
    text = _read(line)
    begin, end = text.index("⟦"), text.index("⟧")
    return text[:begin] + text[begin + 1 : end] + text[end + 1 :], text[begin + 1 : end]


SENSITIVE: tuple[tuple[str, str], ...] = tuple(map(_sensitive, _SENSITIVE.strip().splitlines()))
"""(text, part) pairs; a redactor must remove the part from the text."""

HARMLESS: tuple[str, ...] = tuple(map(_read, _HARMLESS.strip().splitlines()))
"""Texts that a redactor must not change."""
