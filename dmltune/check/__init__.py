"""The reality check of a search; `dmltune.check(…)` calls `api.check`."""

from dmltune.callable_package import make_callable

make_callable(__name__)
