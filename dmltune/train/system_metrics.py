"""Load of the machine at a validation, if MLFLOW_ENABLE_SYSTEM_METRICS_LOGGING is true; names are MLflow's.

Each figure is the mean since the validation before it, or the value at the time, of the machine of rank 0.
"""

from __future__ import annotations

import contextlib
import os

import psutil

SWITCH = "MLFLOW_ENABLE_SYSTEM_METRICS_LOGGING"
MEGABYTE = 1e6


def system_metrics() -> dict[str, float]:
    """Return the figures by name; nothing unless they are switched on."""
    if os.environ.get(SWITCH, "").lower() not in ("1", "true"):
        return {}
    memory = psutil.virtual_memory()
    figures = {
        "system/cpu_utilization_percentage": psutil.cpu_percent(),
        "system/system_memory_usage_megabytes": memory.used / MEGABYTE,
        "system/system_memory_usage_percentage": memory.percent,
        "system/process_memory_usage_megabytes": psutil.Process().memory_info().rss / MEGABYTE,
    }
    return {name: round(value, 2) for name, value in (figures | _gpus()).items()}


def _gpus() -> dict[str, float]:
    """Return load and memory of each GPU, where NVIDIA's library (nvidia-ml-py) is installed."""
    figures: dict[str, float] = {}
    with contextlib.suppress(Exception):  # no library, no driver, or no GPU
        import pynvml

        pynvml.nvmlInit()
        for number in range(pynvml.nvmlDeviceGetCount()):
            device = pynvml.nvmlDeviceGetHandleByIndex(number)
            used = pynvml.nvmlDeviceGetMemoryInfo(device).used
            load = pynvml.nvmlDeviceGetUtilizationRates(device).gpu
            figures[f"system/gpu_{number}_utilization_percentage"] = load
            figures[f"system/gpu_{number}_memory_usage_megabytes"] = used / MEGABYTE
    return figures
