"""The whole state of a training, and the progress that `fit` reports."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import Tensor

from dmltune.core.batch_source import BatchSource
from dmltune.core.ema import Ema
from dmltune.core.example_neighbours import ExampleNeighbours
from dmltune.core.idle import idle_parameters
from dmltune.core.objective import Objective
from dmltune.core.plateau import Plateau
from dmltune.errors import UserError, nearest

PRECISIONS = ("float32", "bfloat16", "float16", "auto")
MEASURES = ("map_at_r", "precision_at_1", "covering_radius")  # the figures of every validation


@dataclass(frozen=True)
class Progress:
    """Progress at a validation. `score` is `metrics[schedule.metric]`.

    reason: "" while training goes on, then "max_steps", "patience" or "stopped". idle: dotted key → why this
    parameter has had no effect so far.
    """

    step: int
    max_steps: int
    metrics: dict[str, float] = field(default_factory=dict)
    score: float = 0.0
    best_score: float = 0.0
    best_step: int = 0
    improved: bool = False
    finished: bool = False
    reason: str = ""
    idle: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Schedule:
    """When to validate, to lower the learning rates and to stop.

    `patience` counts validations without improvement. From the step of each milestone on, learning rates are
    multiplied by `decay`; so they are after every `plateau` validations without improvement. Every
    `monitor_every` steps, and at every validation, the monitored images of the feed are measured; None: the
    references get the score of the validations, and nothing in between. choose: "last" stores the weights of
    the last validation, for a training whose score says nothing about other classes.
    """

    max_steps: int
    validate_every: int
    patience: int | None = None
    metric: str = "map_at_r"
    mode: Literal["max", "min"] = "max"
    milestones: tuple[int, ...] = ()
    decay: float = 0.1
    plateau: int | None = None
    monitor_every: int | None = None
    choose: Literal["best", "last"] = "best"

    def __post_init__(self) -> None:
        if self.metric not in MEASURES:
            known = ", ".join(MEASURES)
            raise UserError(f"no metric '{self.metric}'; there are {known}{nearest(self.metric, MEASURES)}")
        if self.validate_every < 1:
            raise UserError(f"validate_every must be at least 1; got {self.validate_every}")


@dataclass(frozen=True)
class Options:
    """Options of a training step besides loss, gradient and update; the defaults do nothing.

    clip_norm: upper bound of the length of the gradient of everything that learns, as one vector.
    warmup_new_layers: the backbone does not learn for this many steps (its batch norms follow the statistics
    unless frozen). ema: decay of the average of the weights that is validated and stored (0: none).
    precision: type that the backbone computes in while it trains. compile: whether torch compiles what a
    training step computes.
    """

    clip_norm: float | None = None
    warmup_new_layers: int = 0
    ema: float = 0.0
    precision: str = "float32"
    compile: bool = False

    def __post_init__(self) -> None:
        if self.clip_norm is not None and not self.clip_norm > 0:
            raise UserError(f"clip_norm must be above 0, or none; got {self.clip_norm}")
        if self.warmup_new_layers < 0:
            raise UserError(f"warmup_new_layers must be at least 0; got {self.warmup_new_layers}")
        if not 0 <= self.ema < 1:
            raise UserError(f"ema must be at least 0 and below 1; got {self.ema}")
        if self.precision not in PRECISIONS:
            raise UserError(
                f"no precision '{self.precision}'; there are {', '.join(PRECISIONS)}"
                f"{nearest(self.precision, PRECISIONS)}"
            )


class Diverged(Exception):
    """The loss or the embedding is not finite; raised on all ranks before the weights change."""

    def __init__(self, step: int, what: str) -> None:
        super().__init__(f"the {what} is not finite at step {step}; lower optimizer.lr")
        self.step, self.what = step, what

    def __reduce__(self) -> tuple[type[Diverged], tuple[int, str]]:
        return type(self), (self.step, self.what)


class Run:
    """A training that `fit` advances; `state()` and `restore()` move it to another process bit for bit."""

    def __init__(
        self,
        objective: Objective,
        optimizer: torch.optim.Optimizer,
        feed: BatchSource,
        schedule: Schedule,
        options: Options | None = None,
    ) -> None:
        self.objective, self.optimizer, self.feed, self.schedule = objective, optimizer, feed, schedule
        self.options = options or Options()
        self.ema = Ema(objective.embedder, self.options.ema)
        self.precision = "float32"
        self.plateau = Plateau(schedule.plateau)
        self._rates = [float(group["lr"]) for group in optimizer.param_groups]
        self.device = next(objective.embedder.parameters()).device
        if self.options.precision == "float16" and self.device.type == "cpu":
            raise UserError("precision float16 needs a GPU; got a CPU. Use bfloat16, auto or float32.")
        self.scaler = torch.amp.GradScaler(self.device.type, enabled=self.options.precision == "float16")
        self.started = False
        self.step = 0
        self.best_score = self.sign * -torch.inf
        self.best_step = 0
        self.validations_without_improvement = 0
        self.best_weights: dict[str, Tensor] = {}
        self.metrics: dict[str, float] = {}
        self.examples: ExampleNeighbours | None = None  # of the last validation
        self.pools_drawn = 0
        self.seconds = 0.0
        self.interval_seconds = 0.0
        self._steps_since = 0
        self._images_since = 0
        self._loss_since = torch.zeros((), dtype=torch.float64, device=self.device)
        self._live_weights: dict[str, Tensor] | None = None

    @property
    def sign(self) -> int:
        return 1 if self.schedule.mode == "max" else -1

    def reason(self) -> str:
        """Return why the run is over ("max_steps", "patience"), or ""."""
        patience = self.schedule.patience
        if not self.started:
            return ""
        if self.step >= self.schedule.max_steps:
            return "max_steps"
        return "patience" if patience is not None and self.validations_without_improvement >= patience else ""

    @property
    def monitors(self) -> bool:
        """Whether images are measured between validations: only references that follow the score need it."""
        return self.schedule.monitor_every is not None and self.objective.references.follows_score

    @property
    def rates_lowered(self) -> bool:
        return any(
            group["lr"] < rate for group, rate in zip(self.optimizer.param_groups, self._rates, strict=True)
        )

    def set_rates(self) -> None:
        """Set the learning rates of the coming step: lr · decay^(milestones passed + reductions)."""
        passed = sum(self.step >= milestone for milestone in self.schedule.milestones)
        passed += self.plateau.reductions
        for group, rate in zip(self.optimizer.param_groups, self._rates, strict=True):
            group["lr"] = rate * self.schedule.decay**passed

    def count_step(self, loss: Tensor, images: int) -> None:
        self.step += 1
        self._steps_since += 1
        self._images_since += images
        self._loss_since += loss

    def interval_figures(self) -> dict[str, float]:
        """Return mean loss and speed since the last validation; nothing before the first step."""
        if not self._steps_since:
            return {}
        loss = float(self._loss_since) / self._steps_since
        return {"loss": loss, "images_per_s": self._images_since / max(1e-9, self.interval_seconds)}

    def count_validation(self, metrics: dict[str, float]) -> None:
        """Copy the validated weights if the score is the best so far; begin the next interval."""
        self.metrics = metrics
        score = metrics[self.schedule.metric]
        is_last = self.schedule.choose == "last"
        improved = is_last or self.sign * score > self.sign * self.best_score
        self.plateau.count_validation(improved)
        if improved:
            self.best_score, self.best_step, self.validations_without_improvement = score, self.step, 0
            self.best_weights = _copy(self.objective.embedder.state_dict())
        else:
            self.validations_without_improvement += 1
        self.interval_seconds = 0.0
        self._steps_since = self._images_since = 0
        self._loss_since.zero_()

    def load_best(self) -> None:
        """Load the best weights into the embedder; `state()` still returns the live ones."""
        if self._live_weights is None:
            self._live_weights = _copy(self.objective.embedder.state_dict())
        self.objective.embedder.load_state_dict(self.best_weights)

    def progress(self, reason: str = "") -> Progress:
        return Progress(
            step=self.step,
            max_steps=self.schedule.max_steps,
            metrics=dict(self.metrics),
            score=self.metrics.get(self.schedule.metric, self.best_score),
            best_score=self.best_score,
            best_step=self.best_step,
            improved=self.started and self.best_step == self.step,
            finished=bool(reason),
            reason=reason,
            idle=idle_parameters(self),
        )

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Return (tensors, JSON-able meta) of model, optimiser, stored weights, counters and generators."""
        live = {f"embedder.{name}": value for name, value in (self._live_weights or {}).items()}
        packed = self.optimizer.state_dict()
        tensors = {f"model.{name}": value for name, value in {**self.objective.state_dict(), **live}.items()}
        tensors |= {f"best.{name}": value for name, value in self.best_weights.items()}
        tensors |= {f"ema.{name}": value for name, value in self.ema.average.items()}
        tensors["generator.cpu"] = torch.get_rng_state()
        if self.device.type == "cuda":
            tensors["generator.cuda"] = torch.cuda.get_rng_state(self.device)
        numbers: dict[str, Any] = {}
        for index, entries in packed["state"].items():
            for name, value in entries.items():
                target: dict[str, Any] = tensors if isinstance(value, Tensor) else numbers
                target[f"optimizer.{index}.{name}"] = value
        meta = {name: getattr(self, name) for name in _COUNTERS}
        meta["best_score"] = self.best_score if self.best_weights else None
        meta["loss_since"] = float(self._loss_since)
        meta["plateau"] = self.plateau.state()
        meta["scaler"] = self.scaler.state_dict()
        meta["optimizer"] = {"groups": packed["param_groups"], "numbers": numbers}
        return _copy(tensors), meta

    def restore(self, tensors: dict[str, Tensor], meta: dict[str, Any]) -> None:
        """Restore what `state()` returned; schedule and data source stay this run's own."""
        self.objective.load_state_dict(_under("model.", tensors))
        self.best_weights = _copy(_under("best.", tensors))
        self.ema.restore(_under("ema.", tensors))
        self._live_weights = None
        self._restore_optimizer(_under("optimizer.", tensors), meta["optimizer"])
        for name in _COUNTERS:
            setattr(self, name, meta[name])
        if meta["best_score"] is not None:
            self.best_score = meta["best_score"]
        self._loss_since.fill_(meta["loss_since"])
        self.plateau.restore(meta.get("plateau", [0, 0]))  # a checkpoint of an older version has none
        if self.scaler.is_enabled() and meta.get("scaler"):
            self.scaler.load_state_dict(meta["scaler"])
        torch.set_rng_state(tensors["generator.cpu"].cpu())
        if self.device.type == "cuda" and "generator.cuda" in tensors:
            torch.cuda.set_rng_state(tensors["generator.cuda"].cpu(), self.device)

    def _restore_optimizer(self, tensors: dict[str, Tensor], meta: dict[str, Any]) -> None:
        weights = [weight for group in self.optimizer.param_groups for weight in group["params"]]
        state: dict[int, dict[str, Any]] = {}
        for name, value in {**tensors, **_under("optimizer.", meta["numbers"])}.items():
            index, _, entry = name.partition(".")
            if isinstance(value, Tensor) and value.shape == weights[int(index)].shape and value.dim():
                # Fused optimisers walk the memory: moments must lie in it as their weight does
                # (channels last).
                value = torch.empty_like(weights[int(index)]).copy_(value)
            state.setdefault(int(index), {})[entry] = value
        groups = [{n: tuple(v) if n == "betas" else v for n, v in group.items()} for group in meta["groups"]]
        self.optimizer.load_state_dict({"state": state, "param_groups": groups})


_COUNTERS = (
    *("started", "step", "best_step", "validations_without_improvement", "metrics", "pools_drawn"),
    *("seconds", "interval_seconds", "_steps_since", "_images_since", "precision"),
)


def _copy(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: value.detach().cpu().clone() for name, value in tensors.items()}


def _under(prefix: str, values: dict[str, Any]) -> dict[str, Any]:
    return {name.removeprefix(prefix): value for name, value in values.items() if name.startswith(prefix)}
