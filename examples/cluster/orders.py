"""Orders of a shop, kept in a warehouse that every machine reaches: a Postgres database that is not ours."""

import asyncio
from typing import Annotated

import psycopg
from msgspec import Meta, Struct

from agent_resolver.capability import capability
from agent_resolver.registry import CallContext, ToolFailure
from agent_resolver.schema import FailureCode

SCHEMA = """
CREATE TABLE IF NOT EXISTS effect (
    id bigserial PRIMARY KEY, action text NOT NULL, number text NOT NULL, call text, key text, UNIQUE (action, key)
)
"""
ADDRESS = "WAREHOUSE_URL"
_WAIT_SECONDS = 10

Number = Annotated[
    str, Meta(description="The number of the order.", examples=["A-17"], pattern="^[A-Z]-[0-9]{1,9}$", max_length=12)
]


class Order(Struct, frozen=True, kw_only=True):
    """Which order."""

    number: Number


@capability("orders.reserve", idempotent=True, secrets=[ADDRESS], examples=[{"number": "A-17"}])
async def reserve(order: Order, context: CallContext) -> Order:
    """Reserve what an order asks for."""
    await _once("reserve", order, context)
    return order


@capability("orders.release", idempotent=True, secrets=[ADDRESS], examples=[{"number": "A-17"}])
async def release(order: Order, context: CallContext) -> Order:
    """Give back what was reserved for an order."""
    await _once("release", order, context)
    return order


@capability("orders.charge", secrets=[ADDRESS], examples=[{"number": "A-17"}])
async def charge(order: Order, context: CallContext) -> Order:
    """Charge the customer of an order. Every call charges again, as with a bank that knows no keys."""
    await asyncio.to_thread(_add, "charge", order, context, is_keyed=False)
    return order


@capability("orders.refund", idempotent=True, secrets=[ADDRESS], examples=[{"number": "A-17"}])
async def refund(order: Order, context: CallContext) -> Order:
    """Pay the price of an order back."""
    await _once("refund", order, context)
    return order


@capability("orders.ship", idempotent=True, secrets=[ADDRESS], examples=[{"number": "A-17"}])
async def ship(order: Order, context: CallContext) -> Order:
    """Ship an order."""
    await _once("ship", order, context)
    return order


async def _once(action: str, order: Order, context: CallContext) -> None:
    """Do something under the key of the call: the warehouse ignores a key that it knows."""
    await asyncio.to_thread(_add, action, order, context, is_keyed=True)


def _add(action: str, order: Order, context: CallContext, *, is_keyed: bool) -> None:
    statement = "INSERT INTO effect (action, number, call, key) VALUES (%s, %s, %s, %s) ON CONFLICT DO NOTHING"
    find_table = "SELECT to_regclass('effect') IS NULL"
    row = (action, order.number, context.key, context.key if is_keyed else None)
    try:
        with psycopg.connect(context.secrets[ADDRESS].reveal(), connect_timeout=_WAIT_SECONDS) as warehouse:
            # A trial begins with an empty warehouse. Processes that begin together make its table one after the other.
            if warehouse.execute(find_table).fetchone() == (True,):
                warehouse.execute("SELECT pg_advisory_xact_lock(1)")
                warehouse.execute(SCHEMA)
            warehouse.execute(statement, row)
    except psycopg.Error as error:
        message = "The warehouse does not answer"
        raise ToolFailure(FailureCode.SERVER_UNAVAILABLE, message, "try again later") from error
