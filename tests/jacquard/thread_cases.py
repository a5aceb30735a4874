"""Forty turns in English and Chinese, half of which leave a promise, a debt or a question open."""

from __future__ import annotations

PROMISE, DEBT, QUESTION = "promise", "debt", "question"
"""What a turn leaves open; a case names it with words of the sentence that says it."""

OPEN = (
    (
        "I promise you, Oda, I will bring the bell back before Friday.",
        "Oda nods slowly.",
        PROMISE,
        "bring the bell back",
    ),
    (
        "I thank him.",
        '"Come to the mill on Sunday," says Finn. "I will show you the map then, I swear."',
        PROMISE,
        "show you the map",
    ),
    ("I borrow five coins from Marta.", '"So you owe me five coins now," says Marta.', DEBT, "owe me five coins"),
    (
        "I ask about my account.",
        'Lutz counts the silver. "You still owe the guild twelve crowns."',
        DEBT,
        "owe the guild twelve crowns",
    ),
    ("Who stole the clapper, Ilse?", "Ilse looks away and does not answer.", QUESTION, "Who stole the clapper"),
    (
        "Where is the third key?",
        '"Not now," Finn whispers. "Ask me again tomorrow."',
        QUESTION,
        "Where is the third key",
    ),
    (
        "I give Wren my word that nobody will hear of her brother from me.",
        "Wren lets go of the knife.",
        PROMISE,
        "nobody will hear of her brother",
    ),
    (
        "I hand the captain my purse.",
        '"I will pay you back when the ship returns," Captain Hale says. "You have my word."',
        DEBT,
        "pay you back when the ship returns",
    ),
    (
        "We swear to return to the chapel at midnight.",
        "The door falls shut.",
        PROMISE,
        "return to the chapel at midnight",
    ),
    (
        "What happened to my father?",
        'The old woman shakes her head. "I cannot say. Not yet."',
        QUESTION,
        "What happened to my father",
    ),
    ("我向阿朵保证，周五之前把铜钟带回来。", "阿朵慢慢点了点头。", PROMISE, "把铜钟带回来"),
    ("我谢过他。", "「初三你到磨坊来，」老陈说，「我答应你，把地图给你看。」", PROMISE, "把地图给你看"),
    ("我向玛婶借了五枚金币。", "「那你现在欠我五枚金币了。」玛婶说。", DEBT, "欠我五枚金币"),
    ("我问起我的账。", "账房拨着算盘：「你还欠行会十二两银子。」", DEBT, "欠行会十二两银子"),
    ("是谁偷了钟舌？", "伊尔别过脸去，没有回答。", QUESTION, "是谁偷了钟舌"),
    ("第三把钥匙在哪里？", "「现在别问，」老陈低声说，「明天再告诉你。」", QUESTION, "第三把钥匙在哪里"),
    ("我发誓，绝不把你弟弟的事说出去。", "小雁松开了刀。", PROMISE, "绝不把你弟弟的事说出去"),
    ("我把钱袋递给船长。", "「等船回来，我一定还你这笔钱。」船长说。", DEBT, "还你这笔钱"),
    ("我们约定子时在祠堂碰头。", "门关上了。", PROMISE, "子时在祠堂碰头"),
    ("我爹到底出了什么事？", "老婆婆摇了摇头：「我不能说，还不到时候。」", QUESTION, "我爹到底出了什么事"),
)

CLOSED = (
    ("I promise nothing, Oda.", "Oda shrugs."),
    ("How are you, Oda?", "Oda says nothing and sweeps the floor."),
    ("Where is the key?", '"Under the mat," says Oda.'),
    ("I paid Oda the five coins that I owed her.", "Oda puts them away."),
    ("I offer her money.", '"You owe me nothing," says Marta. "It was a gift."'),
    ("I show him the letter.", '"That is a promising start," says Finn.'),
    ("Did you promise her anything?", '"No," says Lutz.'),
    ("I ask for her help.", '"I will not promise you that," says Ilse.'),
    ("I look at the tower.", "Finn kept his promise and brought the bell back."),
    ("If I promised you the moon, would you believe me?", "Oda laughs."),
    ("我什么也不答应。", "阿朵耸耸肩。"),
    ("你好吗，阿朵？", "阿朵没有说话，继续扫地。"),
    ("钥匙在哪里？", "「在门垫下面。」阿朵说。"),
    ("我把欠阿朵的五枚金币还给了她。", "阿朵把钱收好。"),
    ("我要给她钱。", "「你不欠我什么，」玛婶说，「是送你的。」"),
    ("我把信给他看。", "保证书放在桌上，旁边是一张旧地图。"),
    ("你答应过她什么吗？", "「没有。」陆二说。"),
    ("我求她帮忙。", "「这个我可不敢保证。」伊尔说。"),
    ("我望着钟楼。", "老陈说到做到，把铜钟带回来了。"),
    ("我问他肯不肯。", "他没有答应，转身走了。"),
)
