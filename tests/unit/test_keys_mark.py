"""Ids of responses say whose they are, to whoever has the key."""

import pytest

from gateway.errors import ResponseNotFound
from gateway.keys import Rights, mint
from gateway.keys.mark import must_be_of, new_id

ONE, OTHER = mint("one", Rights(), 0.0)[0], mint("other", Rights(), 0.0)[0]


def test_an_id_is_of_its_key_and_of_no_other() -> None:
    response_id = new_id(ONE)
    assert response_id.startswith("resp_")
    must_be_of(ONE, response_id)
    with pytest.raises(ResponseNotFound):
        must_be_of(OTHER, response_id)


def test_two_ids_of_a_key_share_nothing() -> None:
    ids = {new_id(ONE) for _ in range(100)}
    assert len(ids) == len({each[5:37] for each in ids}) == len({each[37:] for each in ids}) == 100


def test_where_nobody_needs_a_key_every_response_is_everybodys() -> None:
    must_be_of(None, "resp_1")


@pytest.mark.parametrize("response_id", ["", "resp_", "resp_" + "0" * 48, "x" * 53, "resp_ü" + "0" * 47, "0" * 999])
def test_what_no_gateway_made_is_of_no_key(response_id: str) -> None:
    with pytest.raises(ResponseNotFound):
        must_be_of(ONE, response_id)


def test_an_id_that_was_changed_is_of_no_key() -> None:
    good = new_id(ONE)
    for at in (5, 20, 36, 37, len(good) - 1):
        changed = good[:at] + ("0" if good[at] != "0" else "1") + good[at + 1 :]
        with pytest.raises(ResponseNotFound):
            must_be_of(ONE, changed)
