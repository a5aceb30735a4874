"""Which of several processes a session belongs to; `jacquard.client.affinity`, so that clients find the same one."""

from __future__ import annotations

from jacquard.client.affinity import choose_node as choose_node
