"""An application: it has orders, and emits an event in the transaction that makes one."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

TABLE = """CREATE TABLE IF NOT EXISTS public.orders (
  id bigint PRIMARY KEY, customer text NOT NULL, total_cents bigint NOT NULL, event_id uuid NOT NULL)"""
INSERT = """INSERT INTO public.orders (id, customer, total_cents, event_id)
  SELECT %(id)s, %(customer)s, %(total)s, e.event_id
  FROM counterfoil.emit(topic => %(topic)s, type => %(type)s, payload => %(payload)s::text,
    ordering_key => %(ordering_key)s, headers => %(headers)s::jsonb) e
  RETURNING event_id::text"""


@dataclass(frozen=True)
class Order:
    id: int
    customer: str
    total_cents: int

    @property
    def payload(self) -> str:
        return json.dumps({"order_id": self.id, "customer_id": self.customer,
                           "total_cents": self.total_cents}, separators=(",", ":"))

    @property
    def key(self) -> str:
        """The idempotency key that the effect `charge` is to have."""
        return f"order:{self.id}:charge"


class Shop:
    """Places orders through a connection of its caller, which begins and commits."""

    def __init__(self, topic: str = "orders", event_type: str = "order.placed") -> None:
        self.topic = topic
        self.event_type = event_type

    @staticmethod
    def create_table(connection: Any) -> None:
        with connection.cursor() as cursor:
            cursor.execute(TABLE)
        connection.commit()

    def place(self, connection: Any, order: Order, headers: dict[str, str] | None = None) -> str:
        """The order and its event, in the open transaction; the event's id."""
        with connection.cursor() as cursor:
            cursor.execute(INSERT, {
                "id": order.id, "customer": order.customer, "total": order.total_cents,
                "topic": self.topic, "type": self.event_type, "payload": order.payload,
                "ordering_key": f"order-{order.id}",
                "headers": json.dumps(headers) if headers else None})
            return cursor.fetchone()[0]

    @staticmethod
    def exists(connection: Any, order: Order) -> bool:
        """For an order whose commit was not answered."""
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1 FROM public.orders WHERE id = %s", (order.id,))
            return cursor.fetchone() is not None

    @staticmethod
    def committed(connection: Any) -> dict[int, str]:
        """What the shop's own books say: order id -> event id."""
        with connection.cursor() as cursor:
            cursor.execute("SELECT id, event_id::text FROM public.orders")
            return dict(cursor.fetchall())
