"""What each routing policy is for."""

from dataclasses import dataclass

from gateway.routing.policies import Affinity, LeastBusy, RoundRobin


@dataclass
class View:
    """An engine with a load."""

    name: str
    in_flight: int = 0
    pool_size: int = 32


def test_round_robin_does_not_look_at_the_load() -> None:
    policy, engines = RoundRobin(), [View("a", in_flight=31), View("b")]
    assert [policy.choose(engines, None).name for _ in range(4)] == ["a", "b", "a", "b"]


def test_least_busy_looks_at_the_share_of_the_slots_that_is_taken() -> None:
    small, large = View("small", in_flight=4, pool_size=8), View("large", in_flight=12, pool_size=32)
    assert LeastBusy().choose([small, large], None) is large


def test_least_busy_takes_turns_among_equals_and_leaves_the_busy_out() -> None:
    policy, engines = LeastBusy(), [View("a"), View("busy", in_flight=1), View("b")]
    assert [policy.choose(engines, None).name for _ in range(4)] == ["a", "b", "a", "b"]


def test_a_key_stays_with_its_engine_whatever_the_order_and_in_every_gateway() -> None:
    engines = [View(name) for name in "abcd"]
    for key in map(str, range(50)):
        home = Affinity().choose(engines, key)
        assert Affinity().choose(engines[::-1], key) is home


def test_keys_are_spread_over_the_engines() -> None:
    policy, engines = Affinity(), [View(name) for name in "abcd"]
    homes = [policy.choose(engines, str(key)).name for key in range(1000)]
    assert all(200 < homes.count(name) < 300 for name in "abcd")


def test_an_engine_that_leaves_moves_only_its_own_keys_and_they_come_back() -> None:
    policy, engines = Affinity(), [View(name) for name in "abcd"]
    for key in map(str, range(200)):
        home = policy.choose(engines, key)
        without_d = policy.choose(engines[:3], key)
        assert without_d is home or home.name == "d"


def test_a_home_with_spare_slots_keeps_its_keys_even_while_another_engine_is_idle() -> None:
    policy, engines = Affinity(), [View("a"), View("b")]
    home = policy.choose(engines, "key")
    home.in_flight = 7
    assert policy.choose(engines, "key") is home
    home.in_flight = 8
    assert policy.choose(engines, "key") is not home


def test_a_home_that_is_busy_like_all_others_keeps_its_keys() -> None:
    policy, engines = Affinity(), [View("a", in_flight=20), View("b", in_flight=20)]
    home = policy.choose(engines, "key")
    home.in_flight = 23
    assert policy.choose(engines, "key") is home


def test_a_request_without_a_key_goes_to_the_least_busy() -> None:
    assert Affinity().choose([View("a", in_flight=1), View("b")], None).name == "b"
