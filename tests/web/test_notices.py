from __future__ import annotations

from quart import Quart

from flnet.web.notices import Notice, Notices, notices


def test_a_notice_is_found_by_its_key_only_and_the_oldest_goes() -> None:
    kept = Notices(most=2)
    keys = [kept.put(Notice(f"{number}", is_error=False)) for number in range(3)]
    assert [kept.get(key) for key in keys] == [None, Notice("1", is_error=False), Notice("2", is_error=False)]
    assert kept.get(None) is kept.get("") is kept.get("1") is None
    assert len(set(keys)) == 3


async def test_all_pages_of_a_node_share_them_and_two_nodes_do_not() -> None:
    one, other = Quart("one"), Quart("other")
    async with one.app_context():
        key = notices().put(Notice("done", is_error=False))
        assert notices().get(key) is not None
    async with one.app_context():
        assert notices().get(key) is not None
    async with other.app_context():
        assert notices().get(key) is None
