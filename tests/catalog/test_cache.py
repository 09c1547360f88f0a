"""The cache: bounded by count and by bytes, and it counts what it does."""

from hypothesis import given, strategies as st

from agent_resolver.catalog import Cache, Counters


def test_the_one_used_longest_ago_goes_first() -> None:
    cache: Cache[str, int] = Cache(2, 100)
    cache.put("a", 1, 1)
    cache.put("b", 2, 1)
    assert cache.get("a") == 1
    cache.put("c", 3, 1)

    assert [cache.get(key) for key in "abc"] == [1, None, 3]
    assert cache.counters == Counters(hits=3, misses=1, evictions=1, count=2, bytes=2)


def test_bytes_bound_it_as_well() -> None:
    cache: Cache[str, int] = Cache(20, 10)
    for key in "abc":
        cache.put(key, 0, 4)
    assert cache.counters == Counters(hits=0, misses=0, evictions=1, count=2, bytes=8)

    cache.put("huge", 0, 11)
    assert cache.get("huge") is None
    assert cache.get("b") == 0


def test_a_value_put_again_takes_the_place_of_the_old_one() -> None:
    cache: Cache[str, int] = Cache(2, 10)
    cache.put("a", 1, 8)
    cache.put("a", 2, 3)

    assert cache.get("a") == 2
    assert cache.counters.bytes == 3
    cache.put("a", 3, 11)
    assert cache.get("a") is None
    assert cache.counters == Counters(hits=1, misses=1, evictions=0, count=0, bytes=0)


def test_a_value_that_does_not_hold_any_more_is_a_miss() -> None:
    cache: Cache[str, int] = Cache(2, 10)
    cache.put("a", 1, 1)

    assert cache.get("a", lambda value: value == 2) is None
    assert cache.counters == Counters(hits=0, misses=1, evictions=0, count=0, bytes=0)


def test_cleared_it_goes_on_counting() -> None:
    cache: Cache[str, int] = Cache(2, 10)
    cache.put("a", 1, 1)
    cache.get("a")
    cache.clear()

    assert cache.counters == Counters(hits=1, misses=0, evictions=0, count=0, bytes=0)


@given(
    count=st.integers(0, 4),
    size=st.integers(0, 20),
    steps=st.lists(st.tuples(st.booleans(), st.integers(0, 6), st.integers(0, 12)), max_size=60),
)
def test_whatever_is_put_and_asked_for_it_stays_within_its_bounds(
    count: int, size: int, steps: list[tuple[bool, int, int]]
) -> None:
    cache: Cache[int, tuple[int, int]] = Cache(count, size)
    asked = 0
    for is_put, key, weight in steps:
        if is_put:
            cache.put(key, (key, weight), weight)
        else:
            asked += 1
            found = cache.get(key)
            assert found is None or found[0] == key
        counters = cache.counters
        assert counters.count <= count
        assert counters.bytes <= size
        assert counters.hits + counters.misses == asked
