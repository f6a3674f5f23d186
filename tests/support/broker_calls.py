"""Questions and reports to a broker that is a plain object."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from dmltune.train.broker import Broker
from dmltune.train.orders import Order, TrialReport

FIRST, SECOND = "s/0000", "s/0001"


def order(name: str = FIRST) -> Order:
    return Order(id=name, experiment={}, folder="unused")


def report(number: int, finished: bool = False) -> TrialReport:
    return TrialReport(number=number, step=10 * number, max_steps=100, score=0.5, finished=finished)


def run(scenario: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(scenario, 20))


async def ask(broker: Broker, after: int = -1, name: str = FIRST) -> asyncio.Future[TrialReport]:
    """Ask for a report as a trial does; the question has reached the broker when this returns."""
    question = asyncio.ensure_future(broker.next_report(order(name), after))
    await asyncio.sleep(0)
    return question
