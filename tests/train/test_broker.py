"""The broker: idempotent, in lockstep; nothing is lost when workers, trials or the broker die."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Coroutine
from types import SimpleNamespace
from typing import Any

import pytest
from support.broker_calls import FIRST, SECOND, ask, order, report, run

from dmltune.train import worker
from dmltune.train.broker import Broker
from dmltune.train.orders import Order


def test_an_order_goes_to_one_group_and_its_reports_come_back_in_order() -> None:
    async def scenario() -> None:
        broker = Broker()
        question = await ask(broker)
        assert await broker.next_order("a", 1) == order()
        assert await broker.next_order("b", 0.01) == "idle"
        await broker.report("a", FIRST, report(0))
        await broker.report("a", FIRST, report(1, finished=True))
        assert await question == report(0)
        assert await broker.next_report(order(), 0) == report(1, finished=True)

    run(scenario())


def test_asking_and_reporting_twice_is_doing_it_once() -> None:
    async def scenario() -> None:
        broker = Broker()
        await ask(broker)
        await ask(broker)
        await broker.next_order("a", 1)
        assert await broker.next_order("b", 0.01) == "idle"
        await broker.report("a", FIRST, report(0))
        await broker.report("a", FIRST, report(0))
        await broker.report("a", FIRST, report(1))
        await broker.report("a", FIRST, report(0))  # stale
        assert [(await broker.next_report(order(), n)).number for n in (-1, 0)] == [0, 1]

    run(scenario())


def test_a_group_waits_until_the_trial_asks_for_the_next_report() -> None:
    async def scenario() -> None:
        broker = Broker()
        question = await ask(broker)
        await broker.next_order("a", 1)
        await broker.report("a", FIRST, report(0))
        assert await question == report(0)
        assert await broker.verdict("a", FIRST, 0, 0.01) == "wait"
        question = await ask(broker, 0)
        assert await broker.verdict("a", FIRST, 0, 5) == "go"
        await broker.report("a", FIRST, report(1))
        assert await question == report(1)

    run(scenario())


def test_a_closed_order_is_left_and_the_group_takes_the_next() -> None:
    async def scenario() -> None:
        broker = Broker()
        await ask(broker, name=FIRST)
        await ask(broker, name=SECOND)
        await broker.next_order("a", 1)
        await broker.report("a", FIRST, report(0))
        verdict = asyncio.ensure_future(broker.verdict("a", FIRST, 0, 10))
        left = asyncio.ensure_future(broker.wait_left("a", FIRST, 10))
        await asyncio.sleep(0)
        await broker.close(FIRST)
        assert await verdict == "leave"
        assert await left
        assert await broker.next_order("a", 1) == order(SECOND)

    run(scenario())


def test_a_restarted_group_gets_its_order_again_until_its_attempts_are_used_up() -> None:
    async def scenario() -> None:
        broker = Broker(max_attempts=3)
        await broker.register("a")
        question = await ask(broker)
        for _ in range(2):
            assert await broker.next_order("a", 1) == order()
            await broker.register("a")  # it died and is back
        assert await broker.next_order("a", 1) == order()
        await broker.register("a")
        assert "died 3 times" in (await question).failure
        assert await broker.next_order("a", 0.01) == "idle"

    run(scenario())


def test_the_order_of_a_group_that_resigns_is_the_next_one_of_another() -> None:
    async def scenario() -> None:
        broker = Broker()
        await broker.resign("a")  # it had nothing
        for name in (FIRST, SECOND):
            await ask(broker, name=name)
        await broker.next_order("a", 1)
        await broker.report("a", FIRST, report(0))
        await broker.resign("a")
        assert await broker.verdict("a", FIRST, 0, 1) == "leave"  # a straggler of the group
        assert await broker.next_order("b", 1) == order()
        await broker.report("b", FIRST, report(1, finished=True))
        assert await broker.next_report(order(), 0) == report(1, finished=True)
        await broker.resign("b")  # a finished order is not trained again
        assert await broker.next_order("c", 1) == order(SECOND)
        await broker.close(SECOND)
        await broker.resign("c")  # nor a closed one
        assert await broker.next_order("d", 0.01) == "idle"

    run(scenario())


def test_an_error_on_one_rank_fails_the_order_at_once_with_its_reason() -> None:
    async def scenario() -> None:
        broker = Broker()
        question = await ask(broker)
        await broker.next_order("a", 1)
        await broker.crashed("a", FIRST, "ValueError: no such thing")
        await broker.register("a")
        last = await question
        assert (last.failure, last.finished) == ("ValueError: no such thing", True)

    run(scenario())


def test_a_restarted_broker_continues_by_the_next_question_alone() -> None:
    async def scenario() -> None:
        restarted = Broker()
        assert await restarted.verdict("a", FIRST, 3, 1) == "leave"  # the group drops its order
        assert await restarted.wait_left("a", FIRST, 1)
        await restarted.report("a", FIRST, report(4))  # no error
        await restarted.register("a")
        assert await restarted.next_order("a", 0.01) == "idle"
        question = await ask(restarted, 3)
        assert await restarted.next_order("a", 1) == order()
        await restarted.report("a", FIRST, report(3))  # of the checkpoint: the trial has it already
        assert await restarted.verdict("a", FIRST, 3, 1) == "go"
        await restarted.report("a", FIRST, report(4))
        assert await question == report(4)

    run(scenario())


def test_a_group_that_lost_its_order_to_another_cannot_report_it() -> None:
    async def scenario() -> None:
        broker = Broker()
        question = await ask(broker)
        await broker.next_order("b", 1)
        await broker.report("a", FIRST, report(7))
        assert await broker.verdict("a", FIRST, 7, 1) == "leave"
        await broker.report("b", FIRST, report(0))
        assert await question == report(0)

    run(scenario())


@pytest.mark.parametrize("busy", [True, False])
def test_stopping_ends_groups_and_trials_that_wait(busy: bool) -> None:
    async def scenario() -> None:
        broker = Broker()
        question = await ask(broker)
        if busy:
            await broker.next_order("a", 1)
        await broker.stop()
        assert await broker.next_order("a", 5) == "stop"
        assert (await question).finished

    run(scenario())


def test_a_group_of_one_order_a_start_leaves_a_paused_order_without_a_failed_attempt(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With `--isolation trial` the processes of a group end after every order, paused ones too."""
    loop, broker, served = asyncio.new_event_loop(), Broker(max_attempts=2), list[str]()

    class Actor:
        def __getattr__(self, method: str) -> Any:
            return SimpleNamespace(remote=getattr(broker, method))

    def serve(group: str, actor: Any, taken: Order) -> None:
        served.append(taken.id)
        loop.run_until_complete(broker.report(group, taken.id, report(len(served) - 1)))
        loop.run_until_complete(broker.pause(taken.id))

    calls: list[object] = []

    def get(call: Coroutine[Any, Any, Any]) -> Any:
        calls.append(call)
        assert len(calls) < 50, "the order was given up and the group waits for another"
        return loop.run_until_complete(call)

    monkeypatch.setattr(worker, "HEARTBEAT_S", 0.01)
    monkeypatch.setattr(worker, "ray", SimpleNamespace(get=get))
    monkeypatch.setattr(worker, "_serve", serve)
    for number in range(4):
        question = loop.run_until_complete(ask(broker, number - 1))
        worker.serve_orders({"group": "a", "broker": Actor(), "orders": 1, "files": None})
        answer = loop.run_until_complete(question)
        assert (answer.number, answer.failure) == (number, "")
    assert served == [FIRST] * 4
    loop.close()


def test_the_broker_and_the_actors_of_tune_do_not_import_torch() -> None:
    """It takes two CPU-seconds, in each of three processes of every search."""
    program = "import sys, dmltune.train.broker, dmltune.search.trainable; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False"]
