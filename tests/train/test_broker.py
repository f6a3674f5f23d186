"""The broker's promises: idempotent, in lockstep, nothing lost when workers, trials or the broker die."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from dmltune.train.broker import Broker
from dmltune.train.orders import Order, TrialReport


def order(name: str = "s/0000") -> Order:
    return Order(id=name, experiment={}, folder="unused")


def report(number: int, finished: bool = False) -> TrialReport:
    return TrialReport(number=number, step=10 * number, max_steps=100, score=0.5, finished=finished)


def run(scenario: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(scenario, 20))


def test_an_order_goes_to_one_slot_and_its_reports_come_back_in_order() -> None:
    async def scenario() -> None:
        broker = Broker()
        await broker.post(order())
        assert await broker.next_order("a", 1) == order()
        assert await broker.next_order("b", 0.01) == "idle"
        await broker.report("a", "s/0000", report(0))
        await broker.report("a", "s/0000", report(1, finished=True))
        assert await broker.next_report("s/0000", -1) == report(0)
        assert await broker.next_report("s/0000", 0) == report(1, finished=True)

    run(scenario())


def test_posting_and_reporting_twice_is_doing_it_once() -> None:
    async def scenario() -> None:
        broker = Broker()
        await broker.post(order())
        await broker.post(order())
        await broker.next_order("a", 1)
        assert await broker.next_order("b", 0.01) == "idle"
        await broker.report("a", "s/0000", report(0))
        await broker.report("a", "s/0000", report(0))
        await broker.report("a", "s/0000", report(1))
        await broker.report("a", "s/0000", report(0))  # stale
        assert [(await broker.next_report("s/0000", n)).number for n in (-1, 0)] == [0, 1]  # type: ignore[union-attr]

    run(scenario())


def test_a_slot_waits_until_the_trial_asks_for_the_next_report() -> None:
    async def scenario() -> None:
        broker = Broker()
        await broker.post(order())
        await broker.next_order("a", 1)
        await broker.report("a", "s/0000", report(0))
        assert await broker.next_report("s/0000", -1) == report(0)
        assert await broker.verdict("a", "s/0000", 0, 0.01) == "wait"
        asking = asyncio.ensure_future(broker.next_report("s/0000", 0))
        assert await broker.verdict("a", "s/0000", 0, 5) == "go"
        await broker.report("a", "s/0000", report(1))
        assert await asking == report(1)

    run(scenario())


def test_a_closed_order_is_abandoned_and_the_slot_takes_the_next() -> None:
    async def scenario() -> None:
        broker = Broker()
        await broker.post(order("s/0000"))
        await broker.post(order("s/0001"))
        await broker.next_order("a", 1)
        await broker.report("a", "s/0000", report(0))
        verdict = asyncio.ensure_future(broker.verdict("a", "s/0000", 0, 10))
        dropped = asyncio.ensure_future(broker.wait_closed("a", "s/0000", 10))
        await asyncio.sleep(0)
        await broker.close("s/0000")
        assert await verdict == "abandon"
        assert await dropped
        assert await broker.next_order("a", 1) == order("s/0001")

    run(scenario())


def test_a_restarted_group_gets_its_order_again_until_its_attempts_are_used_up() -> None:
    async def scenario() -> None:
        broker = Broker(max_attempts=3)
        await broker.register("a")
        await broker.post(order())
        for _ in range(2):
            assert await broker.next_order("a", 1) == order()
            await broker.register("a")  # it died and is back
        assert await broker.next_order("a", 1) == order()
        await broker.register("a")
        last = await broker.next_report("s/0000", -1)
        assert last is not None
        assert "died 3 times" in last.failure
        assert await broker.next_order("a", 0.01) == "idle"

    run(scenario())


def test_what_a_slot_leaves_is_the_next_order_of_another() -> None:
    async def scenario() -> None:
        broker = Broker()
        await broker.leave("a")  # it had nothing
        for name in ("s/0000", "s/0001"):
            await broker.post(order(name))
        await broker.next_order("a", 1)
        await broker.report("a", "s/0000", report(0))
        await broker.leave("a")
        assert await broker.verdict("a", "s/0000", 0, 1) == "abandon"  # a straggler of the group
        assert await broker.next_order("b", 1) == order()
        await broker.report("b", "s/0000", report(1, finished=True))
        assert (await broker.next_report("s/0000", 0)) == report(1, finished=True)
        await broker.leave("b")  # a finished one is trained no more
        assert await broker.next_order("c", 1) == order("s/0001")
        await broker.close("s/0001")
        await broker.leave("c")  # nor one that nobody wants
        assert await broker.next_order("d", 0.01) == "idle"

    run(scenario())


def test_an_error_on_one_rank_fails_the_order_at_once_with_its_reason() -> None:
    async def scenario() -> None:
        broker = Broker()
        await broker.post(order())
        await broker.next_order("a", 1)
        await broker.crashed("a", "s/0000", "ValueError: no such thing")
        await broker.register("a")
        last = await broker.next_report("s/0000", -1)
        assert last is not None
        assert last.failure == "ValueError: no such thing"
        assert last.finished

    run(scenario())


def test_a_new_broker_after_a_death_is_told_everything_again() -> None:
    async def scenario() -> None:
        reborn = Broker()
        assert await reborn.next_report("s/0000", 3) is None  # the trial posts again
        assert await reborn.verdict("a", "s/0000", 3, 1) == "abandon"  # the slot lets go
        assert await reborn.wait_closed("a", "s/0000", 1)
        await reborn.report("a", "s/0000", report(4))  # no error
        await reborn.post(order())
        assert await reborn.next_order("a", 1) == order()

    run(scenario())


def test_a_slot_that_lost_its_order_to_another_cannot_report_it() -> None:
    async def scenario() -> None:
        broker = Broker()
        await broker.post(order())
        await broker.next_order("b", 1)
        await broker.report("a", "s/0000", report(7))
        assert await broker.verdict("a", "s/0000", 7, 1) == "abandon"
        await broker.report("b", "s/0000", report(0))
        assert await broker.next_report("s/0000", -1) == report(0)

    run(scenario())


@pytest.mark.parametrize("busy", [True, False])
def test_stopping_ends_slots_and_trials_that_wait(busy: bool) -> None:
    async def scenario() -> None:
        broker = Broker()
        await broker.post(order())
        if busy:
            await broker.next_order("a", 1)
        trial = asyncio.ensure_future(broker.next_report("s/0000", -1))
        await asyncio.sleep(0)
        await broker.stop()
        assert await broker.next_order("a", 5) == "stop"
        last = await trial
        assert last is not None
        assert last.finished

    run(scenario())
