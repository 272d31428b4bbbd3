"""Facts of other processes are looked for until the follower is closed, whatever goes wrong meanwhile."""

import logging
import threading

from capse.service.fact_follower import FactFollower

LIMIT = 20  # seconds that no wait should take


def threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "capse-facts"]


def test_it_looks_again_after_an_error_which_is_logged(caplog):
    looked = threading.Semaphore(0)
    fails = iter([ConnectionError("away"), None])

    def apply():
        looked.release()
        if error := next(fails, None):
            raise error

    with caplog.at_level(logging.ERROR, "capse.service"):
        follower = FactFollower(apply, every=0.001)
        assert all(looked.acquire(timeout=LIMIT) for _ in range(3))
        follower.close()
    assert [record.fields for record in caplog.records] == [{"error": "ConnectionError"}]


def test_closing_waits_for_the_look_that_is_under_way_and_none_follows():
    began, may_end, looks = threading.Event(), threading.Event(), []

    def apply():
        began.set()
        assert may_end.wait(LIMIT)
        looks.append(1)

    follower = FactFollower(apply, every=0.001)
    assert began.wait(LIMIT)
    (thread,) = threads()
    assert thread.daemon  # a process that ends otherwise does not wait for it
    closing = threading.Thread(target=follower.close, daemon=True)
    closing.start()
    closing.join(0.01)
    assert closing.is_alive()
    may_end.set()
    closing.join(LIMIT)
    assert not closing.is_alive()
    assert looks == [1]
    assert not threads()
