"""Conflicts on the overview: those that are open."""

from __future__ import annotations

from typing import Callable

from tests.tools.keys import Keys
from tests.tools.terminal import Terminal


def test_a_settled_conflict_needs_nobody(keys: Keys, console: Callable[..., Terminal]):
    keys.query("INSERT INTO counterfoil.conflict (topic, partition, \"offset\", effect, idempotency_key, "
               "target, tenant, holder, event_id, fingerprint) SELECT 't', 0, n, 'e', 'k', 'p', '', 1, "
               "'e' || n, '' FROM generate_series(1, 3) n")
    assert "3 events asked for a key" in console(100, 30).screen()
    keys.query("SELECT counterfoil.settle_conflicts('{1,2}', gen_random_uuid(), 'why', '{}')")
    assert "1 event asked for a key" in console(100, 30).screen()
    keys.query("SELECT counterfoil.settle_conflicts('{3}', gen_random_uuid(), 'why', '{}')")
    assert "asked for a key" not in console(100, 30).screen()
