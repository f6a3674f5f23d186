"""A cluster job: one YAML file that says which space is searched with which budget and resources."""

from __future__ import annotations

import re
from pathlib import Path as File
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, ValidationError

from dmltune.errors import UserError
from dmltune.experiment.files import places
from dmltune.experiment.files.document import Document, read_document
from dmltune.experiment.problems import Problem, kind_of, show, unknown
from dmltune.experiment.schema.sections import Count, Section
from dmltune.experiment.schema.validation_errors import problem_of

JOBS = "jobs"
_TIME = re.compile(r"(?:\d+(?:\.\d+)?[dhms])+")


def _one_or_many(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


class Job(Section):
    """`time` is a duration such as 1h30m, `runtime_env` goes to Ray, `ship` sends this package along."""

    about: str = ""
    space: str = Field(min_length=1)
    name: str | None = None
    trials: Count | None = None
    time: str | None = None
    workers: Count = 1
    concurrent: Count | None = None
    overrides: Annotated[list[str], BeforeValidator(_one_or_many)] = []
    data_root: str | None = None
    store: str | None = None
    runtime_env: dict[str, Any] = {}
    ship: bool = True


def load_job(name_or_path: str | File) -> Job:
    """The job of that name in `jobs/`, or of a YAML file; every mistake is one UserError line."""
    file = places.find_file(name_or_path, JOBS, "job")
    shown = places.shown(file)
    document = read_document(file, shown)
    try:
        job = _checked(document)
    except Problem as problem:
        raise UserError(f"{document.place(shown, problem.paths)}: {problem}") from None
    return job


def _checked(document: Document) -> Job:
    tree = dict(document.tree)
    for key in tree:
        if key not in Job.model_fields:
            raise Problem(unknown(key, Job.model_fields), (key,))
    for key in ("overrides", "runtime_env"):
        if tree.get(key, 0) is None:
            del tree[key]
    time = tree.get("time")
    if time is not None and not (
        isinstance(time, str) and _TIME.fullmatch(time) and re.search("[1-9]", time)
    ):
        unit = (
            f" Write '{time}s' for seconds."
            if isinstance(time, (int, float)) and not isinstance(time, bool) and time > 0
            else ""
        )
        raise Problem(f"time must be a time such as 90s, 30m or 1h30m; got {kind_of(time)}.{unit}", ("time",))
    try:
        job = Job.model_validate(tree)
    except ValidationError as error:
        raise problem_of(error, Job) from None
    for index, override in enumerate(job.overrides):
        if "=" not in override.strip("="):
            raise Problem(
                f"an override is key=value, such as max_steps=300; got {show(override)}.",
                ("overrides", str(index)),
            )
    for key in ("name", "data_root", "store"):
        if getattr(job, key) == "":
            raise Problem(f"{key} must not be empty. Delete the line or fill it in.", (key,))
    return job
