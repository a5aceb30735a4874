"""Builds the prompt block that tells the model which ops of its last reply were refused, with reasons and present
values.

An op is one change of the state that a reply asks for. The block is shown until the model has replied again. The last
turn of a session may have no reply of the model: an action of the world answered it, a host repaired the state, or the
input was closed without a reply. Then the store is read for the turns before it, until a turn with a reply is found. See
docs/decisions/0036. This module must not import a concrete store.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from filament import display, escape_text
from filament.markup import close_tag, open_tag
from filament.state.verdicts import Legal, OpVerdict
from jacquard.core.block_kinds import REFUSALS_SOURCE, STATE_LAYER, slot_of
from jacquard.core.blocks import Block, BlockKind, BlockOrigin, BlockPlace, Placement, Position
from jacquard.core.quests import is_scalar
from jacquard.pipeline.turn import Turn
from mnemosyne.chains.state import StateView, view_state
from mnemosyne.chains.unanswered_inputs import is_closed_unanswered
from mnemosyne.core.codec import from_plain
from mnemosyne.core.errors import CodecError, DamagedRecordError, TurnNotFoundError
from mnemosyne.damage import LostTree
from mnemosyne.protocols import Store
from mnemosyne.schema.evidence import BlockType, Priority
from mnemosyne.schema.memory import Trust
from mnemosyne.schema.record import SessionWindow, TurnRecord
from mnemosyne.schema.session import TurnKind, TurnStatus

BLOCK_ID = "refused_update"
_PLACE = BlockPlace(
    slot=slot_of(BlockKind.REFUSAL),
    placement=Placement(position=Position.SYSTEM, order=68),
    layer=STATE_LAYER,
    volatile=True,
)
_MOST_OPS = 5
_MOST_BOUND = 6
_STEPS_BACK = 20
_REASON_CHARS = 240
_VALUE_CHARS = 80
_CHOICES = 8
_BOUND = "turn_refused"
_MISPLACED = frozenset(("update_before_content", "update_not_last", "update_unclear", "update_untagged"))
"""Codes of updates that were not carried out because of their place in the reply. An update inside of a quotation is
not included, because it is not the model's own.
"""

UNTAGGED, CARRIED_OUT, SET_ASIDE = "untagged", "carried_out", "set_aside"
"""A reply should write its changes of the state inside of the tag `<state_update>`. If it wrote a list of changes without
the tag, the stored report of the turn has the key UNTAGGED. The value under this key is CARRIED_OUT if the changes were
read and judged like tagged ones, and SET_ASIDE if they were ignored.
"""
_NOTICE = "notice"
_UNTAGGED = {
    CARRIED_OUT: (
        "Your last reply had changes without their tag. They were read this once; put them into <state_update>, at the end.",
        "上一次回复写出的变化没有标签。这一次已经读取；请把它们放进 <state_update>，写在 content 之后。",
    ),
    SET_ASIDE: (
        "A list of changes without its tag in your last reply was not carried out.",
        "上一次回复里有一列没有标签的变化，没有执行。",
    ),
}

Report = Mapping[str, Any]
_NOTHING: Report = {}


async def find_last_report(store: Store, window: SessionWindow) -> Report:
    """Return the report that was stored when the model's last reply in `window` was committed.

    Return an empty report if there is no reply of the model in the last turns (about twenty), or if the turn or its
    report cannot be read.
    """
    record, session_id = window.previous, window.head.session_id
    for _ in range(_STEPS_BACK):
        if record is None or _is_reply(record):
            break
        try:
            record = None if record.parent_id is None else await store.turn(session_id, record.parent_id)
        except (DamagedRecordError, TurnNotFoundError):
            return _NOTHING
    if record is not None and isinstance(record.report, LostTree):
        return _NOTHING
    return (record.report or _NOTHING) if record is not None and _is_reply(record) else _NOTHING


def _is_reply(record: TurnRecord) -> bool:
    """Return whether the model has replied in the turn `record`, so that the turn is not an action or an input without a reply."""
    is_answered = record.status is TurnStatus.COMMITTED and not is_closed_unanswered(record)
    return record.kind is TurnKind.NARRATIVE and is_answered


def refusal_blocks(turn: Turn, count: Callable[[str], int]) -> tuple[Block, ...]:
    """Return the block about the refused ops of the last reply, as a tuple; an empty tuple if there is nothing to report.

    If no op was refused, but the reply wrote changes of the state without the tag `<state_update>`, the block is about
    these changes. `count` returns the tokens of a text.
    """
    zh = turn.world.locale.lower().startswith("zh")
    name, lines = BLOCK_ID, _describe_refusals(turn.facts.last_report, turn.window.state, zh=zh)
    untagged = turn.facts.last_report.get(UNTAGGED)
    if untagged in _UNTAGGED and not lines:
        name, lines = _NOTICE, [_UNTAGGED[untagged][zh]]
    if not lines:
        return ()
    content = "\n".join((open_tag(name), *(escape_text(line) for line in lines), close_tag(name)))
    block = Block(
        block_id=BLOCK_ID,
        kind=BlockKind.REFUSAL,
        block_type=BlockType.STATE,
        content=content,
        place=_PLACE,
        origin=BlockOrigin(
            source=REFUSALS_SOURCE, title="没有执行的状态更新" if zh else "Refused update", trust=Trust.MODEL
        ),
        priority=Priority.HIGH,
        tokens=count(content),
    )
    return (block,)


def _describe_refusals(report: Report, state: Mapping[str, Any], *, zh: bool) -> list[str]:
    verdicts = _read_verdicts(report)
    bad = [verdict for verdict in verdicts if not verdict.is_applied and verdict.code != _BOUND]
    bound = [verdict for verdict in verdicts if verdict.code == _BOUND]
    aside = [entry for entry in report.get("set_aside", ()) if entry.get("code") in _MISPLACED]
    if not bad and not aside:
        return []
    view = view_state(view_state(state).shown)
    lines = [
        "上一次回复的 state_update 没有执行，其中每一项都不算数："
        if zh
        else "The state_update of your last reply was not carried out; nothing of it holds:"
    ]
    lines += [_describe_one(verdict, view, zh=zh) for verdict in bad[:_MOST_OPS]]
    lines += [f"- {_cut(_misplaced_zh(entry) if zh else str(entry.get('sentence')), _REASON_CHARS)}" for entry in aside]
    more = len(bad) - _MOST_OPS
    if more > 0:
        lines.append(f"- 另有 {more} 项不合规则" if zh else f"- {more} more broke a rule")
    if bound:
        ops = "；".join(each.op for each in bound[:_MOST_BOUND]) if zh else "; ".join(e.op for e in bound[:_MOST_BOUND])
        lines.append(
            f"- 本身没有问题、也没有执行的：{ops}" if zh else f"- Right by themselves, not carried out either: {ops}"
        )
    lines.append(
        "仍应成立的，改正后重新写出；否则一切以当前状态为准。"
        if zh
        else "Write again, corrected, what should still hold; otherwise go by the state as it is."
    )
    return lines


def _read_verdicts(report: Report) -> Sequence[OpVerdict]:
    try:
        return [from_plain(verdict, OpVerdict) for verdict in report.get("verdicts", ())]
    except CodecError:
        return ()


def _describe_one(verdict: OpVerdict, view: StateView, *, zh: bool) -> str:
    reason = _cut(_reason_zh(verdict) if zh else verdict.reason, _REASON_CHARS)
    now = _describe_value(view, verdict.target)
    if zh:
        return f"- {verdict.op}：{reason}" + (f"。{verdict.target} 现在是 {now}" if now else "")
    return f"- {verdict.op}: {reason}" + (f". {verdict.target} is {now} now" if now else "")


def _describe_value(view: StateView, target: str) -> str:
    """Return the present value at the target of an op; '' if there is none or it is too long."""
    found, value = view.read(target) if target else (False, None)
    if not found:
        return ""
    shown = json.dumps(display(value), ensure_ascii=False) if not isinstance(value, str) else value
    return shown if len(shown) <= _VALUE_CHARS else _cut(shown, _VALUE_CHARS) if is_scalar(value) else ""


def _cut(text: str, most: int) -> str:
    line = " ".join(text.split())
    return line if len(line) <= most else line[: most - 1] + "…"


_KINDS_ZH = {
    "text": "文字",
    "integer": "整数",
    "number": "数字",
    "boolean": "true 或 false",
    "list": "列表",
    "mapping": "带字段的内容",
}
_REASONS_ZH = {
    "malformed": "写法不对",
    "unreadable": "读不出来",
    "not_expected": "这里不能写操作",
    "unknown_path": "没有这个地址",
    "ambiguous_id": "这个 id 不止一处",
    "protected": "这里不能改",
    "not_updatable": "这里不允许改",
    "not_extensible": "这里不能加新字段",
    "necessary": "不能删除，只能用 SET 改值",
    "missing_field": "缺少必需的字段",
    "outside_limits": "超出范围",
    "wrong_type": "类型不对",
    "illegal_transition": "不能从现在的状态变成这个",
    "not_a_number": "不是数字，不能加减",
    "not_a_list": "不是列表",
    "no_entry": "没有这一项",
    "id_taken": "这个 id 已经有了，换一个，或者不写",
    "id_retired": "这个 id 以前属于别的东西，换一个，或者不写",
    "division_by_zero": "不能除以零",
    "out_of_range": "结果太大",
    "ruled_description": "这里的说明由数值决定，不能另写",
    "broken_rules": "世界的规则写错了，这里暂时改不了",
    "too_many_ops": "操作太多",
    "value_too_large": "内容太长，写短些",
    "state_too_large": "状态太大，先用 DELETE、POP 去掉不要的",
    "too_deep": "嵌套太深",
}


def _reason_zh(verdict: OpVerdict) -> str:
    legal = verdict.legal or Legal()
    parts = [_REASONS_ZH.get(verdict.code, f"不合规则（{verdict.code}）")]
    if legal.field and legal.field not in verdict.target:
        parts.append(f"问题在 {legal.field}")
    if legal.kind:
        parts.append(f"这里要{_KINDS_ZH.get(legal.kind, legal.kind)}")
    if legal.limits is not None:
        low, high = ("不限" if end is None else f"{end:g}" for end in legal.limits)
        parts.append(f"范围 {low} 到 {high}")
    if legal.near:
        parts.append(f"最接近的是 {legal.near}")
    elif legal.choices:
        shown = "、".join("null" if each is None else str(each) for each in legal.choices[:_CHOICES])
        parts.append(f"可用的有 {shown}" + ("等" if len(legal.choices) > _CHOICES else ""))
    elif verdict.code == "illegal_transition":
        parts.append("它不再改变")
    return "，".join(parts)


def _misplaced_zh(entry: Mapping[str, Any]) -> str:
    if entry.get("code") == "update_untagged":
        return "没有标签：把变化写在 content 之后的 <state_update> 里"
    return f"位置不对（{entry.get('code')}）：先写 content，再把 state_update 完整地写在最后"
