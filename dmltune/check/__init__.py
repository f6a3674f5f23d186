"""The reality check after a search: folds × seeds on the test classes, with statistics. Called, it checks."""

from dmltune.callable_package import make_callable

make_callable(__name__)
