"""A cluster job: one YAML file that says which space is searched with which budget and resources."""

from __future__ import annotations

import re
from pathlib import Path as File
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, ValidationError

from dmltune.errors import UserError
from dmltune.experiment.files import places
from dmltune.experiment.files.document import read_document
from dmltune.experiment.problems import Problem, kind_of, problem_of, show
from dmltune.experiment.schema.sections import Count, Section
from dmltune.store import is_name

JOBS = "jobs"
_TIME = re.compile(r"(?=.*[1-9])(?:\d+(?:\.\d+)?[dhms])+")


def _override(text: str) -> str:
    if "=" not in text.strip("="):
        raise ValueError("an override is key=value, such as max_steps=300")
    return text


def _search_name(text: str) -> str:
    if not is_name(text):
        raise ValueError("it must be letters, digits, '.', '_' or '-', at most 100")
    return text


def _ray_environment(environment: dict[str, Any]) -> dict[str, Any]:
    """Validate the two entries that dmltune adds to; Ray validates the rest."""
    variables, modules = environment.get("env_vars", {}), environment.get("py_modules", [])
    if not isinstance(variables, dict) or not all(isinstance(text, str) for text in variables.values()):
        raise ValueError("env_vars must be a mapping of texts; quote its values")
    if not isinstance(modules, list) or not all(isinstance(text, str) for text in modules):
        raise ValueError("py_modules must be a list of texts")
    return environment


Text = Annotated[str, Field(min_length=1)]
AsList = BeforeValidator(lambda value: [value] if isinstance(value, str) else value)


class Job(Section):
    """`time` is a duration such as 1h30m, `runtime_env` goes to Ray, `ship` uploads this package too."""

    about: str = ""
    space: Text
    name: Annotated[str, AfterValidator(_search_name)] | None = None
    trials: Count | None = None
    time: str | None = None
    workers: Count = 1
    concurrent: Count | None = None
    overrides: Annotated[list[Annotated[str, AfterValidator(_override)]], AsList] = []
    data_root: Text | None = None
    store: Text | None = None
    runtime_env: Annotated[dict[str, Any], AfterValidator(_ray_environment)] = {}
    ship: bool = True


def load_job(name_or_path: str | File) -> Job:
    """Load a job by its name in `jobs/` or from a YAML file; every mistake is one UserError line."""
    file = places.find_file(name_or_path, JOBS, "job")
    shown = places.shown(file)
    document = read_document(file, shown)
    empty = [key for key in ("overrides", "runtime_env") if document.tree.get(key, 0) is None]
    try:
        _validate_time(document.tree.get("time"))
        return Job.model_validate({key: document.tree[key] for key in document.tree if key not in empty})
    except ValidationError as error:
        problem = problem_of(error, Job)
    except Problem as broken_rule:
        problem = broken_rule
    raise UserError(f"{document.place(shown, problem.paths)}: {problem}")


def _validate_time(time: Any) -> None:
    if time is None or (isinstance(time, str) and _TIME.fullmatch(time)):
        return
    seconds = isinstance(time, (int, float)) and not isinstance(time, bool) and time > 0
    unit = f" Write '{show(time)}s' for seconds." if seconds else ""
    raise Problem(f"time must be a time such as 90s, 30m or 1h30m; got {kind_of(time)}.{unit}", ("time",))
