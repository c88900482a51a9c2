"""The files of deploy/: against the published schemas and systemd's own checks, and against what the node reads."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
import yaml

from flnet.settings import PREFIX, Settings, load_settings
from tests.test_packaging import image_environment, only, project

DEPLOY = Path(__file__).parents[2] / "deploy"
UNIT = DEPLOY / "flnet.service"
MANIFESTS = DEPLOY / "kubernetes" / "flnet.yaml"
SCHEMAS = json.loads(Path(__file__).with_name("kubernetes-1.34.json").read_text("utf-8"))
KNOWN = {PREFIX + name.upper() for name in Settings.model_fields}
Tree = Mapping[str, Any]


def manifests() -> dict[str, Any]:
    """The manifests by kind."""
    documents = yaml.safe_load_all(MANIFESTS.read_text("utf-8"))
    return {document["kind"]: document for document in documents}


def pod() -> Any:
    """What each pod of the set is made from."""
    return manifests()["StatefulSet"]["spec"]["template"]


def container() -> Any:
    """The pod's only container."""
    (result,) = pod()["spec"]["containers"]
    return result


def environment(number: int) -> dict[str, str]:
    """The variables of the pod with this number, as the kubelet fills them in: in order, names of earlier ones in $()."""
    fields = {
        "metadata.name": f"flnet-{number}",
        "metadata.labels['apps.kubernetes.io/pod-index']": str(number),
    }
    result: dict[str, str] = {}
    for entry in container()["env"]:
        value = entry.get("value") or fields[entry["valueFrom"]["fieldRef"]["fieldPath"]]
        result[entry["name"]] = re.sub(r"\$\((\w+)\)", lambda name: result[name[1]], value)
    return result


# Kubernetes.


def complaints(document: Tree) -> list[str]:
    """What the published schema of its kind says against a manifest; fields that it does not know are wrong, too."""
    kind = SCHEMAS["kinds"][f"{document['apiVersion']} {document['kind']}"]
    validator = jsonschema_rs.validator_for(kind | {"$defs": SCHEMAS["$defs"]})
    return [error.message for error in validator.iter_errors(document)]


@pytest.mark.parametrize("kind", ["Service", "PodDisruptionBudget", "StatefulSet"])
def test_manifests_are_what_kubernetes_publishes(kind: str) -> None:
    document = manifests()[kind]
    assert complaints(document) == []
    assert complaints(document | {"spec": document["spec"] | {"replica": 4}}) != []
    assert complaints(document | {"metadata": {"name": 4}}) != []


def test_the_set_the_service_and_the_budget_mean_the_same_pods() -> None:
    kinds = manifests()
    labels = pod()["metadata"]["labels"]
    assert kinds["Service"]["spec"]["selector"] == labels
    assert kinds["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"] == labels
    assert kinds["StatefulSet"]["spec"]["selector"]["matchLabels"] == labels
    assert kinds["StatefulSet"]["spec"]["serviceName"] == kinds["Service"]["metadata"]["name"]


def test_nodes_find_each_other_before_they_are_ready() -> None:
    kinds = manifests()
    assert kinds["Service"]["spec"]["clusterIP"] == "None"
    assert kinds["Service"]["spec"]["publishNotReadyAddresses"] is True
    assert kinds["StatefulSet"]["spec"]["podManagementPolicy"] == "Parallel"


def test_the_variables_of_each_pod_are_a_valid_start() -> None:
    kinds = manifests()
    replicas = kinds["StatefulSet"]["spec"]["replicas"]
    first = kinds["StatefulSet"]["spec"]["ordinals"]["start"]
    service, port = kinds["Service"]["metadata"]["name"], kinds["Service"]["spec"]["ports"][0]["port"]
    numbers = range(first, first + replicas)
    for number in numbers:
        variables = {name: value for name, value in environment(number).items() if name.startswith(PREFIX)}
        assert variables.keys() <= KNOWN
        settings = load_settings({}, image_environment() | variables)
        assert settings.node_id == f"flnet-{number}"
        assert settings.allowed_hosts == (f"flnet-{number}.{service}",)
        assert set(settings.bootstrap_pairs) <= {f"flnet-{other}.{service}:{port}" for other in numbers}
        assert str(settings.data_shard) == f"{number}/{replicas}"
        assert settings.mode == "keyed"
        assert settings.node_port == port == container()["ports"][0]["containerPort"]


def test_kubernetes_own_variables_do_not_reach_the_node() -> None:
    name = manifests()["Service"]["metadata"]["name"].upper()
    assert name + "_" == PREFIX  # so FLNET_PORT would be an unknown setting, and stop the start
    assert pod()["spec"]["enableServiceLinks"] is False


def test_a_pod_has_no_rights_that_it_does_not_need() -> None:
    user, _, group = only("USER").partition(":")
    rights = pod()["spec"]["securityContext"]
    assert rights["runAsNonRoot"] is True
    assert (rights["runAsUser"], rights["runAsGroup"], rights["fsGroup"]) == (int(user), int(group), int(group))
    assert rights["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container()["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert pod()["spec"]["automountServiceAccountToken"] is False


def test_all_that_a_node_writes_is_on_a_volume() -> None:
    set_of_pods = manifests()["StatefulSet"]["spec"]
    volumes = {volume["name"] for volume in pod()["spec"]["volumes"]}
    claims = {claim["metadata"]["name"] for claim in set_of_pods["volumeClaimTemplates"]}
    mounts = {mount["mountPath"]: mount["name"] for mount in container()["volumeMounts"]}
    assert set(mounts.values()) == volumes | claims
    variables = image_environment() | environment(1)
    state = Path(variables["FLNET_STATE_PATH"])
    assert str(state) not in mounts  # a mount's root belongs to root
    assert mounts[str(state.parent)] in claims
    assert mounts[variables["FLNET_DATASETS_PATH"]] in claims
    assert str(Path(variables["FLNET_MESH_KEY_FILE"]).parent) in mounts


def test_probes_ask_what_is_meant_for_them() -> None:
    asked = {name: probe["httpGet"]["path"] for name, probe in container().items() if name.endswith("Probe")}
    assert asked == {"startupProbe": "/health", "livenessProbe": "/health", "readinessProbe": "/ready"}


def test_the_pods_run_this_version() -> None:
    assert container()["image"] == f"flnet:{project()['project']['version']}"


# systemd.


def unit() -> list[tuple[str, str]]:
    """The lines of the unit, as (name, value)."""
    lines = (line for line in UNIT.read_text("utf-8").splitlines() if line[:1] not in ("", "#", "["))
    return [(name, value) for name, _, value in (line.partition("=") for line in lines)]


def test_the_service_starts_with_valid_settings_in_folders_of_its_own() -> None:
    variables = dict(value.split("=", 1) for name, value in unit() if name == "Environment")
    assert {name for name in variables if name.startswith(PREFIX)} <= KNOWN
    settings = load_settings({}, variables)
    made = {Path("/var/lib") / folder for folder in dict(unit())["StateDirectory"].split()}
    assert {settings.state_path, settings.datasets_path, Path(variables["HOME"])} == made


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
def test_systemd_understands_the_service(tmp_path: Path) -> None:
    there = tmp_path / UNIT.name
    there.write_text(UNIT.read_text("utf-8").replace("/opt/flnet/bin/flnet run", "/bin/true"))
    answer = subprocess.run(["systemd-analyze", "verify", there], capture_output=True, text=True, check=False)
    assert (answer.returncode, answer.stdout + answer.stderr) == (0, "")


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
def test_systemd_rates_the_exposure_of_the_service_below_two() -> None:
    command = ["systemd-analyze", "security", "--offline=true", "--threshold=20", str(UNIT)]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stdout + answer.stderr
