"""The reality check of a search: folds × seeds on the test classes, with statistics. It can be called."""

from dmltune.callable_package import make_callable

make_callable(__name__)
