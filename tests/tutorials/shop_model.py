"""Models for the tutorial of the support agent: they call its tools, and answer only from what the prompt contains."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from jacquard.testing.server import ScriptedRequest, Step


@dataclass(frozen=True, kw_only=True)
class Rule:
    """Behaviour of the model if the question contains `question`."""

    question: str
    answers: Sequence[tuple[str, str]]
    """Pairs of (words that the prompt or a result must contain, divided by ` & `; answer); the first that fits is given."""
    call: tuple[str, Mapping[str, str]] | None = None
    """Tool that is called if no answer fits."""


def make_script(rules: Sequence[Rule], *, unknown: str, failed: str) -> Callable[[ScriptedRequest], Step]:
    """Return the script of a server. `unknown` is the answer if no rule fits, `failed` the answer if a tool failed.

    What was said before in the conversation counts as nothing: only documents, results and facts do.
    """

    def answer(request: ScriptedRequest) -> Step:
        question = [message.text for message in request.messages if message.role == "user"][-1]
        given = "\n".join(message.text for message in request.messages if message.role in ("system", "tool"))
        rule = next((rule for rule in rules if rule.question in question), None)
        if rule is None:
            return Step(text=unknown)
        for words, text in rule.answers:
            if all(word in given for word in words.split(" & ")):
                return Step(text=text)
        if request.messages[-1].role == "tool":
            return Step(text=failed)
        return Step(text=unknown) if rule.call is None else Step(calls=(rule.call,))

    return answer


ENGLISH = make_script(
    (
        Rule(
            question="How long do I have to return",
            answers=(
                (
                    "within 30 days",
                    "You can return a lamp within 30 days, and the return is free. [returns.md: Returns]",
                ),
                (
                    "within 60 days",
                    "You can return a lamp within 60 days, and the return is free. [returns.md: Returns]",
                ),
            ),
        ),
        Rule(
            question="Where is my order A1",
            answers=(("one of two boxes is on its way", "One of its two boxes is on its way. [find_order]"),),
            call=("find_order", {"number": "A1"}),
        ),
        Rule(
            question="Which lamp was in order A1",
            answers=(("lamp Ada", "The lamp Ada, with a glass shade. [find_order]"),),
            call=("find_order", {"number": "A1"}),
        ),
        Rule(
            question="keep your answers short",
            answers=(("Remembered.", "I will."),),
            call=("remember_customer", {"wish": "Wants short answers."}),
        ),
        Rule(
            question="What does delivery cost",
            answers=(
                (
                    "Wants short answers & costs 4.90 euros",
                    "4.90 euros; free from 60 euros on. [delivery.md: Delivery costs]",
                ),
            ),
        ),
        Rule(
            question="A2",
            answers=(("delivered on 3 May", "It was delivered on 3 May. [find_order]"),),
            call=("find_order", {"number": "A2"}),
        ),
        Rule(
            question="Where is my order A3",
            answers=(("waits in our shop", "It waits in our shop. [find_order]"),),
            call=("find_order", {"number": "A3"}),
        ),
        Rule(
            question="How did I pay for A3",
            answers=(("by invoice", "By invoice. [find_order]"),),
            call=("find_order", {"number": "A3"}),
        ),
    ),
    unknown="My documents do not say that.",
    failed="I cannot look up orders now; a colleague will answer you.",
)

CHINESE = make_script(
    (
        Rule(
            question="多久可以退货",
            answers=(
                ("30 天内可以退货", "收到后 30 天内可以退货，退货运费由我们承担。[退换货.md: 退货]"),
                ("60 天内可以退货", "收到后 60 天内可以退货，退货运费由我们承担。[退换货.md: 退货]"),
            ),
        ),
        Rule(
            question="订单 A1 到哪了",
            answers=(("已发一箱", "两箱里已经发出一箱。[find_order]"),),
            call=("find_order", {"number": "A1"}),
        ),
        Rule(
            question="订单 A1 买的是哪款灯",
            answers=(("青瓷台灯", "青瓷台灯，玻璃灯罩。[find_order]"),),
            call=("find_order", {"number": "A1"}),
        ),
        Rule(
            question="回答请尽量简短",
            answers=(("已记住", "好的。"),),
            call=("remember_customer", {"wish": "希望回答简短。"}),
        ),
        Rule(
            question="每单运费",
            answers=(("希望回答简短 & 每单运费 12 元", "12 元，满 199 元免运费。[配送.md: 运费]"),),
        ),
        Rule(
            question="A2",
            answers=(("5 月 3 日签收", "5 月 3 日签收的。[find_order]"),),
            call=("find_order", {"number": "A2"}),
        ),
        Rule(
            question="订单 A3 到哪了",
            answers=(("等待出库", "还在仓库等待出库。[find_order]"),),
            call=("find_order", {"number": "A3"}),
        ),
        Rule(
            question="A3 是怎么付的款",
            answers=(("货到付款", "货到付款。[find_order]"),),
            call=("find_order", {"number": "A3"}),
        ),
    ),
    unknown="手头的资料里没有这一条。",
    failed="现在查不了订单，稍后由同事回复您。",
)
