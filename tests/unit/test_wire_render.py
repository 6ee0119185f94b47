"""The one table of errors."""

import json

import pytest

from gateway import errors as e
from gateway.wire import render

EXAMPLES: dict[type[e.GatewayError], e.GatewayError] = {
    e.InvalidRequest: e.InvalidRequest("wrong", param="model"),
    e.EngineAnswered: e.EngineAnswered(
        400, b'{"error":{"message":"too long","type":"BadRequestError","param":null,"code":400}}'
    ),
    **{
        kind: kind("busy", retry_after=1.2)
        for kind in (
            *(e.LaneFull, e.PatienceExhausted, e.KeysUnavailable, e.NoEngine, e.Draining),
            *(e.BatchesUnavailable, e.DiskFull),
        )
    },
    e.QuotaExceeded: e.QuotaExceeded("spent", retry_after=1.2, kind="tokens"),
}


def leaves(kind: type[e.GatewayError]) -> set[type[e.GatewayError]]:
    below = kind.__subclasses__()
    return set().union(*(leaves(k) for k in below)) if below else {kind}


def example(kind: type[e.GatewayError]) -> e.GatewayError:
    return EXAMPLES.get(kind) or kind("what happened")


def test_every_error_a_client_can_meet_has_a_row() -> None:
    assert leaves(e.GatewayError) == set(render.ROWS)


@pytest.mark.parametrize("kind", sorted(leaves(e.GatewayError), key=lambda k: k.__name__))
def test_every_error_has_openais_shape_as_an_answer_and_as_an_event(kind: type[e.GatewayError]) -> None:
    """Case H49: always an object with message, type, param and code."""
    answer = render.answer(example(kind))
    for body in (answer.body, render.event_data(example(kind))):
        assert set(json.loads(body)["error"]) == {"message", "type", "param", "code"}
        assert b"\n" not in body
    assert 400 <= answer.status <= 599


def test_a_refusal_says_when_to_come_back_in_whole_seconds() -> None:
    assert dict(render.answer(e.LaneFull("full", retry_after=1.2)).headers) == {"retry-after": "2"}
    assert dict(render.answer(e.Draining("bye", retry_after=0)).headers) == {"retry-after": "1"}


@pytest.mark.parametrize("status", [400, 404, 409, 413, 422, 429, 500, 502, 503, 529])
def test_an_engines_own_error_keeps_status_and_body(status: int) -> None:
    """Case H49."""
    body = b'{"error":{"message":"m","type":"t","param":null,"code":1}}'
    answer = render.answer(e.EngineAnswered(status, body, retry_after="7"))
    assert (answer.status, answer.body, dict(answer.headers)) == (status, body, {"retry-after": "7"})


@pytest.mark.parametrize("status", [401, 403, 407])
def test_an_engine_that_refuses_the_gateways_key_is_a_502_without_its_words(status: int) -> None:
    """Case H49: a client must not think that its own key is wrong."""
    answer = render.answer(
        e.EngineAnswered(status, b'{"error":{"message":"bad key sk-1","type":"t","param":null,"code":1}}')
    )
    assert answer.status == 502
    assert b"sk-1" not in answer.body
    assert b"sk-1" not in render.event_data(e.EngineAnswered(status, b'{"error":{"message":"bad key sk-1"}}'))


@pytest.mark.parametrize(
    "body", [b"<html>502</html>", b"", b'{"error":"Unauthorized"}', b'{"detail":"Not Found"}', b"[]", b"\xff"]
)
def test_an_engines_unreadable_error_is_wrapped(body: bytes) -> None:
    """Case H49: HTML in JSON's place would break a client's parser."""
    answer = render.answer(e.EngineAnswered(502, body, content_type="text/html"))
    assert answer.status == 502
    assert answer.content_type == "application/json"
    assert json.loads(answer.body)["error"]["message"]


def test_a_fault_of_our_own_says_nothing_about_itself() -> None:
    answer = render.answer(KeyError("secret"))
    assert answer.status == 500
    assert b"secret" not in answer.body + render.event_data(KeyError("secret"))


@pytest.mark.parametrize(
    ("error", "challenge"),
    [
        (e.KeyMissing("no key"), 'Bearer realm="tokenlane"'),
        (e.KeyRejected("no such key"), 'Bearer realm="tokenlane", error="invalid_token"'),
    ],
)
def test_who_comes_without_a_good_key_is_told_what_is_expected(error: e.GatewayError, challenge: str) -> None:
    """RFC 6750, 3."""
    answer = render.answer(error)
    assert answer.status == 401
    assert dict(answer.headers) == {"www-authenticate": challenge}
