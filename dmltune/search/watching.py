"""Calls the watcher of a search. Its errors cannot end the search: after the first one it is not called
again."""

from __future__ import annotations

import logging

from dmltune.search.state import SearchEvent, Watch


class Watcher:
    def __init__(self, watch: Watch | None) -> None:
        self._watch = watch

    def show(self, event: SearchEvent) -> None:
        if self._watch is None:
            return
        try:
            self._watch(event)
        except Exception as error:
            self._watch = None
            logging.getLogger(__name__).warning(
                "the search goes on without its display: %s: %s", type(error).__name__, error
            )
