"""timm's weights come with the library of the Hugging Face hub, from a hub on 127.0.0.1."""

from __future__ import annotations

import hashlib
import http.server
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import safetensors.torch
import torch

timm = pytest.importorskip("timm")
pytest.importorskip("huggingface_hub")
CODE = """
from dmltune.core import backbones
from dmltune.weights.fetching import obtain
from dmltune.weights.progress import progress_to
steps = []
with progress_to(lambda *step: steps.append(step)):
    path = obtain("timm/test_resnet", "imagenet")
assert obtain("timm/test_resnet", "imagenet") == path
net = backbones.load("timm/test_resnet", "imagenet", path)
print(path, float(net.state_dict()["net.conv1.0.weight"].sum() if "net.conv1.0.weight" in net.state_dict()
      else net.state_dict()["net.conv1.weight"].sum()), steps[-1], sep="|")
"""


def test_weights_of_timm_are_fetched_from_the_hub_once(tmp_path: Path) -> None:
    torch.manual_seed(3)
    net = timm.create_model("test_resnet")
    content = safetensors.torch.save({name: value.contiguous() for name, value in net.state_dict().items()})
    asked: list[str] = []

    class Hub(http.server.BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            self.answer()

        def do_GET(self) -> None:
            self.answer()
            self.wfile.write(content)

        def answer(self) -> None:
            asked.append(f"{self.command} {self.path}")
            self.send_response(200)
            self.send_header("X-Repo-Commit", "c" * 40)
            self.send_header("ETag", f'"{hashlib.sha256(content).hexdigest()}"')
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hub) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        own = ("http_proxy", "https_proxy", "HF_HUB_OFFLINE", "DMLTUNE_OFFLINE", "DMLTUNE_DATA")
        environment = {name: value for name, value in os.environ.items() if name not in own} | {
            "HF_ENDPOINT": f"http://127.0.0.1:{server.server_address[1]}",
            "HF_HOME": str(tmp_path / "hf"),
            "DMLTUNE_CACHE": str(tmp_path / "cache"),
        }
        done = subprocess.run(
            [sys.executable, "-c", CODE], env=environment, capture_output=True, text=True, check=False
        )
        server.shutdown()
        thread.join()
    assert done.returncode == 0, done.stderr
    path, total, step = done.stdout.strip().split("|")
    assert Path(path).is_relative_to(tmp_path / "cache" / "weights")
    first = next(value for name, value in net.state_dict().items() if name.startswith("conv1"))
    assert float(total) == pytest.approx(float(first.sum()), abs=1e-6)
    assert step == f"('fetch timm/test_resnet.r160_in1k', {len(content)}, {len(content)})"
    file = "/timm/test_resnet.r160_in1k/resolve/main/model.safetensors"
    assert [line for line in asked if line.endswith(".safetensors")] == [f"HEAD {file}", f"GET {file}"]
