"""Set the environment of a Ray worker and become it: Ray's own program for this imports all of Ray first.

A file that Ray runs by its path. It needs nothing but the standard library, so that it takes 0.03 s, not 0.6.
"""

import json
import os
import re
import sys

CONTEXT, LANGUAGE = "--serialized-runtime-env-context=", "--language="


def main() -> None:
    arguments = sys.argv[1:]
    context = next((each.removeprefix(CONTEXT) for each in arguments if each.startswith(CONTEXT)), "{}")
    wanted = json.loads(context)
    variables = wanted.pop("env_vars", None) or {}
    if any(value for key, value in wanted.items() if (key, value) != ("py_executable", sys.executable)):
        file = os.path.join(
            os.path.dirname(arguments[0]), "setup_worker.py"
        )  # more than variables is Ray's work
        os.execv(sys.executable, [sys.executable, file, *arguments])
    for name, value in variables.items():
        # as Ray has it: ${X} that is not set is empty
        os.environ[name] = re.sub(r"\$\{[A-Z0-9_]+\}", "", os.path.expandvars(value))
    own = [each for each in arguments if not each.startswith((CONTEXT, LANGUAGE))]
    os.execv(sys.executable, [sys.executable, *own])


if __name__ == "__main__":
    main()
