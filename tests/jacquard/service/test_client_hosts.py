"""A client of several hosts: a session keeps to its host, and goes on to the next while that one is away."""

from __future__ import annotations

import httpx
import pytest

from jacquard.client.affinity import rank_nodes
from jacquard.client.connection import KEY_HEADER, SESSION_HEADER, Connection
from jacquard.client.errors import ServiceUnreachableError

pytestmark = pytest.mark.anyio

HOSTS = ["http://a:1", "http://b:1/", "http://c:1"]
NAMES = ["http://a:1", "http://b:1", "http://c:1"]


class Hosts:
    """Answers of three hosts; those in `down` refuse, those in `broken` break the connection after the call arrived. A balancer
    before them answers with `balancer_says`, one after another, before they are asked.
    """

    def __init__(self) -> None:
        self.calls: list[httpx.Request] = []
        self.down, self.broken, self.closing = set[str](), set[str](), set[str]()
        self.balancer_says: list[int] = []

    def answer(self, request: httpx.Request) -> httpx.Response:
        host = f"http://{request.url.netloc.decode()}"
        if host in self.down:
            raise httpx.ConnectError("refused")
        self.calls.append(request)
        if host in self.broken:
            raise httpx.ReadError("broken")
        if self.balancer_says:
            return httpx.Response(self.balancer_says.pop(0), html="<h1>Bad Gateway</h1>")
        return httpx.Response(503 if host in self.closing else 200, json={})

    def asked(self) -> list[str]:
        return [f"http://{each.url.netloc.decode()}" for each in self.calls]


@pytest.fixture
def hosts():
    return Hosts()


def connect(hosts: Hosts) -> Connection:
    return Connection(HOSTS, transport=httpx.MockTransport(hosts.answer))


async def test_sessions_keep_to_their_hosts(hosts):
    async with connect(hosts) as connection:
        for _ in range(2):
            for number in range(30):
                await connection.call("GET", ("sessions", f"s{number}", "turns"))
    asked = hosts.asked()
    assert asked[:30] == asked[30:] == [rank_nodes(f"s{number}", NAMES)[0] for number in range(30)]
    assert set(asked) == set(NAMES)
    assert hosts.calls[0].headers[SESSION_HEADER] == "s0"


async def test_a_host_that_is_away_is_passed_over(hosts):
    own, second, third = rank_nodes("s", NAMES)
    hosts.down = {own}
    async with connect(hosts) as connection:
        await connection.call("POST", ("sessions", "s", "turns"), {}, once=True)
        hosts.down = {own, second}
        await connection.call("GET", ("sessions", "s", "turns"))
    assert hosts.asked() == [second, third]


async def test_a_call_that_may_have_arrived_is_made_again_elsewhere_with_its_key(hosts):
    own, second, _ = rank_nodes("s", NAMES)
    hosts.broken = {own}
    async with connect(hosts) as connection:
        await connection.call("POST", ("sessions", "s", "reply"), {"turn_id": "t"})
        assert hosts.asked() == [own, second]
        assert hosts.calls[0].headers[KEY_HEADER] == hosts.calls[1].headers[KEY_HEADER]


async def test_a_call_that_cannot_be_known_again_is_made_once(hosts):
    hosts.broken = set(NAMES)
    async with connect(hosts) as connection:
        with pytest.raises(ServiceUnreachableError, match="may have arrived"):
            await connection.call("POST", ("sessions", "s", "fork"), {}, once=True)
    assert len(hosts.calls) == 1


async def test_a_balancer_whose_host_broke_is_asked_again_with_the_key(hosts):
    hosts.balancer_says = [502, 504]
    async with connect(hosts) as connection:
        await connection.call("POST", ("sessions", "s", "reply"), {"turn_id": "t"})
        assert len({each.headers[KEY_HEADER] for each in hosts.calls}) == 1
        assert len(hosts.calls) == 3
        hosts.balancer_says = [502]
        with pytest.raises(ServiceUnreachableError, match=r"502.*may have arrived"):
            await connection.call("POST", ("sessions", "s", "fork"), {}, once=True)


async def test_a_session_is_created_at_its_host(hosts):
    async with connect(hosts) as connection:
        for number in range(20):
            await connection.call("POST", ("sessions",), {"session_id": f"s{number}"}, once=True)
    assert hosts.asked() == [rank_nodes(f"s{number}", NAMES)[0] for number in range(20)]
    assert hosts.calls[7].headers[SESSION_HEADER] == "s7"


async def test_a_host_that_closes_sends_its_sessions_on(hosts):
    own, second, _ = rank_nodes("s", NAMES)
    hosts.closing = {own}
    async with connect(hosts) as connection:
        await connection.call("GET", ("sessions", "s", "turns"))
    assert hosts.asked() == [own, second]


def test_a_connection_needs_an_address():
    with pytest.raises(ValueError, match="address"):
        Connection([])
