"""The mail that comes with each order. A mail server knows no keys, so a mail is sent at most once:
where its fate is not known, it is left to a person."""

from __future__ import annotations

import re
from typing import Any

from tests.tools.mailer import Mail
from tests.tools.shop import Order

RETRY = {"first": "200ms", "max": "2s", "attempts": 100}
SUBJECT = re.compile(r"Order (\d+)")


def effect(topic: str) -> dict[str, Any]:
    return {"name": "mail", "on": {"topic": topic, "type": "order.placed"}, "target": "mail",
            "mode": "at_most_once", "key": "order:${/order_id}:mail", "retry": RETRY,
            "retention": "forever",
            "request": {"body": "Dear ${/customer_id},\nthank you for ${/total_cents} cents.\n"}}


def target(url: str) -> dict[str, Any]:
    return {"name": "mail", "url": url, "profile": "smtp", "from": "orders@shop.example",
            "to": "${/customer_id}@customers.example", "subject": "Order ${/order_id}",
            "connect_timeout": "1s", "timeout": "2s", "concurrency": 10,
            "breaker": {"open": "2s"}}


def key(order: Order) -> str:
    """The idempotency key that the effect is to have."""
    return f"order:{order.id}:mail"


def number_of(mail: Mail) -> int | None:
    """Of the order that it is about."""
    found = SUBJECT.fullmatch(str(mail.message["Subject"]))
    return int(found[1]) if found else None


def is_meant(mail: Mail, order: Order) -> bool:
    """Is it the one that the order asks for?"""
    text = f"Dear {order.customer},\nthank you for {order.total_cents} cents.\n"
    return (mail.recipients == [f"{order.customer}@customers.example"]
            and mail.message.get_content().replace("\r\n", "\n") == text)
