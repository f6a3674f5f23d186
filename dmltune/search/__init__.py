"""Ray Tune and Optuna: which trials run, and which is best. Called, it searches."""

from dmltune.callable_package import make_callable

make_callable(__name__)
