"""Ray Train: how one experiment is trained, alone or by worker groups. Called, it trains."""

from dmltune.callable_package import make_callable

make_callable(__name__)
