"""Every process finds the same owner of a session, and few sessions move when a process comes or goes."""

from collections import Counter

import pytest

from jacquard.service.affinity import choose_node

NODES = ["a", "b", "c", "d"]
SESSIONS = [f"session {number}" for number in range(2_000)]


def test_answer_is_the_same_everywhere() -> None:
    named = [choose_node(session, ["0", "1", "2"]) for session in ("tavern", "森林", "a/b", "\ud800")]
    assert named == ["0", "0", "0", "1"]


def test_order_of_nodes_makes_no_difference() -> None:
    assert [choose_node(each, NODES) for each in SESSIONS] == [choose_node(each, NODES[::-1]) for each in SESSIONS]


def test_sessions_are_spread_evenly() -> None:
    counted = Counter(choose_node(each, NODES) for each in SESSIONS)
    assert all(420 <= counted[node] <= 580 for node in NODES)


def test_only_sessions_of_the_node_that_left_move() -> None:
    for session in SESSIONS:
        before, after = choose_node(session, NODES), choose_node(session, NODES[:-1])
        assert before in ("d", after)


def test_sessions_of_two_tenants_are_told_apart() -> None:
    moved = sum(choose_node(each, NODES, "one") != choose_node(each, NODES, "two") for each in SESSIONS)
    assert moved > 1_000


def test_no_nodes_is_an_error() -> None:
    with pytest.raises(ValueError, match="no node"):
        choose_node("tavern", [])
