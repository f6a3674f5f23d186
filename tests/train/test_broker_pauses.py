"""Orders that are paused: their groups leave, and the next question continues them."""

from __future__ import annotations

import asyncio

from support.broker_calls import FIRST, SECOND, ask, order, report, run

from dmltune.train.broker import Broker


def test_a_paused_order_releases_its_group_and_the_next_question_continues_it() -> None:
    async def scenario() -> None:
        broker = Broker()
        first = await ask(broker, name=FIRST)
        second = await ask(broker, name=SECOND)
        await broker.next_order("a", 1)
        await broker.report("a", FIRST, report(0))
        assert await first == report(0)
        verdict = asyncio.ensure_future(broker.verdict("a", FIRST, 0, 10))
        left = asyncio.ensure_future(broker.wait_left("a", FIRST, 10))
        await asyncio.sleep(0)
        await broker.pause(FIRST)
        assert (await verdict, await left) == ("leave", True)
        assert await broker.next_order("a", 1) == order(SECOND)  # the waiting trial has the group
        await broker.report("a", SECOND, report(0, finished=True))
        assert await second == report(0, finished=True)
        assert await broker.next_order("a", 0.01) == "idle"  # a paused order that no trial asks for

        assert await broker.next_report(order(), -1) == report(0)  # its reports are still known
        first = await ask(broker, 0)
        assert await broker.next_order("b", 1) == order()  # any group continues from the checkpoint
        await broker.report("b", FIRST, report(0))  # which repeats its report
        await broker.report("b", FIRST, report(1, finished=True))
        assert await first == report(1, finished=True)

    run(scenario())


def test_an_order_may_be_paused_while_it_waits_or_trains_but_not_when_it_is_closed() -> None:
    async def scenario() -> None:
        broker = Broker()
        waiting = await ask(broker)
        await broker.pause(FIRST)
        assert await broker.next_order("a", 0.01) == "idle"
        continued = await ask(broker)  # its checkpoint decides where it continues
        assert await broker.next_order("a", 1) == order()
        await broker.pause(FIRST)
        assert await broker.verdict("b", FIRST, 0, 0.01) == "leave"  # a group that does not have it
        again = await ask(broker)  # asked for before its group noticed the pause: the group goes on
        assert await broker.wait_left("a", FIRST, 0.01) is False
        assert await broker.next_order("b", 0.01) == "idle"
        await broker.close(FIRST)
        for question in (waiting, continued, again):
            assert (await question).failure
        await broker.pause(FIRST)
        await broker.pause("unknown")
        assert await broker.next_order("a", 0.01) == "idle"
        assert await broker.wait_left("a", FIRST, 1)

    run(scenario())


def test_a_group_that_died_while_its_order_was_paused_is_no_failed_attempt_at_another() -> None:
    async def scenario() -> None:
        broker = Broker(max_attempts=1)
        await ask(broker)
        await broker.next_order("a", 1)
        await broker.pause(FIRST)
        await broker.resign("a")  # nothing to give to another group
        assert await broker.next_order("b", 0.01) == "idle"
        question = await ask(broker)
        assert await broker.next_order("b", 1) == order()
        await broker.report("b", FIRST, report(0, finished=True))
        assert await question == report(0, finished=True)

    run(scenario())


def test_the_pause_of_a_trial_that_another_one_continues_comes_too_late() -> None:
    async def scenario() -> None:
        broker = Broker()
        first = asyncio.ensure_future(broker.next_report(order(), -1, "first"))
        await asyncio.sleep(0)
        assert await broker.next_order("a", 1) == order()
        await broker.pause(FIRST)  # by the driver
        second = asyncio.ensure_future(broker.next_report(order(), -1, "second"))
        await asyncio.sleep(0)
        await broker.pause(FIRST, "first")  # the first trial's actor ends after that
        await broker.report("a", FIRST, report(0, finished=True))
        assert await first == await second == report(0, finished=True)

    run(scenario())
