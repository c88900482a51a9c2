"""Holds the container files to their promises, without a container: read as text, and as far as possible run."""

from __future__ import annotations

import json
import re
import shutil
import ssl
import subprocess
import sys
import threading
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from flnet.security.keys import own_key
from flnet.security.tls import server_context
from flnet.settings import PREFIX, Settings, load_settings

ROOT = Path(__file__).parent.parent
DOCKERFILE = ROOT / "Dockerfile"
COMPOSE = ROOT / "docker-compose.yml"
NODES = ("node-a", "node-b", "node-c")
KNOWN = {PREFIX + name.upper() for name in Settings.model_fields}


def instructions() -> list[tuple[str, str]]:
    """The Dockerfile's instructions, comments gone and continued lines joined."""
    lines = [line for line in DOCKERFILE.read_text("utf-8").splitlines() if not line.lstrip().startswith("#")]
    joined = re.sub(r"\\\n", "", "\n".join(lines))
    words = (line.split(maxsplit=1) for line in joined.splitlines() if line.strip())
    return [(name.upper(), rest.strip()) for name, rest in words]


def image(target: str = "default") -> list[tuple[str, str]]:
    """The instructions of the stages that become the image: of the target, after those that it begins from."""
    stages: dict[str, list[tuple[str, str]]] = {}
    own: list[tuple[str, str]] = []
    for name, rest in instructions():
        if name == "FROM":
            base, _, stage = rest.split()
            own = stages[stage] = list(stages.get(base, []))
        own.append((name, rest))
    return stages[target]


def only(name: str) -> str:
    """What the image's single instruction of this name says."""
    (result,) = [rest for other, rest in image() if other == name]
    return result


def image_environment() -> dict[str, str]:
    """ENV of the image."""
    return dict(pair.split("=", 1) for pair in only("ENV").split())


def default_of(argument: str) -> str:
    """The default of an ARG."""
    return next(r.split("=", 1)[1] for n, r in instructions() if n == "ARG" and r.startswith(argument + "="))


def copied_from_context() -> list[str]:
    """The sources of all COPY that do not come from another stage."""
    copies = [rest.split() for name, rest in instructions() if name == "COPY"]
    return [source for words in copies if not words[0].startswith("--from") for source in words[:-1]]


def project() -> dict[str, Any]:
    """pyproject.toml."""
    return tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))


def blocks() -> dict[str, str]:
    """The compose file's text by top-level key, a service's as "services.<name>"; comments gone, $ filled in."""
    text = re.sub(r"^\s*#.*\n", "", COMPOSE.read_text("utf-8"), flags=re.MULTILINE)
    text = re.sub(r"\$\{\w+:?-([^}]*)\}", r"\1", text)
    result = {part.split(":", 1)[0]: part for part in re.split(r"^(?=[\w-]+:)", text, flags=re.MULTILINE) if part}
    services = re.split(r"^  (?=[\w-]+:$)", result["services"], flags=re.MULTILINE)[1:]
    return result | {"services." + part.split(":", 1)[0]: part for part in services}


def environment_of(node: str) -> dict[str, str]:
    """A service's variables, the shared ones included."""
    text = blocks()["x-environment"] + blocks()[f"services.{node}"].partition("environment:")[2]
    result = re.findall(rf"^\s+({PREFIX}\w+): (.+)$", text, flags=re.MULTILINE)
    return {name: value.strip('"') for name, value in result}


def listed(node: str, key: str) -> list[str]:
    """The entries of a service's list."""
    (part,) = re.findall(rf"^    {key}:\n((?:      - .+\n)+)", blocks()[f"services.{node}"], flags=re.MULTILINE)
    return [line.strip().removeprefix("- ").strip('"') for line in part.splitlines()]


# The image.


def test_the_last_stage_is_the_default_one() -> None:
    *_, last = [rest.split()[-1] for name, rest in instructions() if name == "FROM"]
    assert last == "default"


def test_the_two_images_differ_in_their_dependencies_only() -> None:
    slim, default = ([(name, rest) for name, rest in image(target)] for target in ("slim", "default"))
    assert [one for one in default if one not in slim] == [
        ("FROM", "run AS default"),
        ("COPY", "--from=dependencies /opt/flnet /opt/flnet"),
    ]
    assert len(slim) == len(default)


def test_the_default_image_has_what_the_four_trainers_of_the_thesis_need() -> None:
    extras = project()["project"]["optional-dependencies"]
    asked = " ".join(one for extra in default_of("FRAMEWORKS").split(",") for one in extras[extra])
    needed = {
        "MNIST": "torch",
        "MULTI_LABEL": "torch",
        "CHEST_X_RAY_PNEUMONIA": "tensorflow",
        "CIFAR10": "tensorflow",
    }
    for trainer, package in needed.items():
        assert (ROOT / "trainers" / f"{trainer}.py").exists()
        assert package in asked
    assert "pillow" in asked  # their data are folders of JPEG files, or files of them


def test_the_image_never_runs_as_root() -> None:
    after = image()[[name for name, _ in image()].index("USER") :]
    assert "RUN" not in [name for name, _ in after]
    assert all(rest.startswith("--from=") for name, rest in after if name in ("COPY", "ADD"))  # as root, as built
    user, _, group = only("USER").partition(":")
    assert int(user) >= 1000  # a number, so that an orchestrator can check it
    assert int(group) >= 1000


def test_signals_reach_the_node_itself() -> None:
    assert json.loads(only("ENTRYPOINT")) == ["flnet"]
    assert json.loads(only("CMD")) == ["run"]
    assert only("STOPSIGNAL") == "SIGTERM"


def test_bases_are_named_by_version() -> None:
    stages = {rest.split(" AS ")[1] for name, rest in instructions() if name == "FROM" and " AS " in rest}
    bases = {rest.split()[0] for name, rest in instructions() if name == "FROM"} - stages
    assert bases == {"${BASE_IMAGE}"}
    tag = default_of("BASE_IMAGE").partition(":")[2]
    assert re.match(r"\d+\.\d+", tag), tag


def test_the_variables_of_the_image_are_a_valid_start() -> None:
    environment = image_environment()
    settings = load_settings({}, environment)
    assert settings.listen_address == "0.0.0.0"
    assert only("EXPOSE") == str(settings.node_port)
    assert json.loads(only("VOLUME")) == [environment["FLNET_STATE_PATH"], environment["FLNET_DATASETS_PATH"]]


def test_the_folders_of_the_volumes_belong_to_the_user() -> None:
    user, _, group = only("USER").partition(":")
    made = re.findall(rf"install -d -o {user} -g {group} -m (\d+) (\S+)", only("RUN"))
    environment = image_environment()
    assert made == [("0700", environment["FLNET_STATE_PATH"]), ("0755", environment["FLNET_DATASETS_PATH"])]


def test_the_first_torch_is_the_one_that_the_extra_asks_for() -> None:
    text = DOCKERFILE.read_text("utf-8")
    asked = [r for r in project()["project"]["optional-dependencies"]["torch"] if r.startswith("torch")]
    assert re.findall(r'"(torch==[^"]+)"', text) == asked
    assert set(default_of("FRAMEWORKS").split(",")) <= set(project()["project"]["optional-dependencies"])


def test_only_torch_comes_from_the_index_for_processors(tmp_path: Path) -> None:
    (run,) = [rest for _, rest in instructions() if '"torch==' in rest]
    run = run.replace("/opt/tools/bin/pip", "echo").partition("&&")[0] + ";; esac"
    for index, expected in (
        (default_of("TORCH_INDEX_URL"), "--index-url https://download.pytorch.org/whl/cpu "),
        ("", ""),
    ):
        variables = {"FRAMEWORKS": default_of("FRAMEWORKS"), "EXTRAS": "", "TORCH_INDEX_URL": index}
        said = subprocess.run(["sh", "-ec", run], env=variables, capture_output=True, text=True, check=True).stdout
        assert f"install --no-deps {expected}torch==" in said


@pytest.mark.parametrize(
    ("frameworks", "extras", "files"),
    [("torch,images", "", ["torch", "images"]), ("torch", "onnx,table", ["torch", "onnx", "table"]), ("", "", [])],
)
def test_the_image_installs_what_pyproject_lists_for_its_extras(
    tmp_path: Path, frameworks: str, extras: str, files: list[str]
) -> None:
    (tmp_path / "pyproject.toml").write_bytes((ROOT / "pyproject.toml").read_bytes())
    (write,) = [rest for _, rest in instructions() if rest.startswith("mkdir requirements")]
    subprocess.run(["sh", "-ec", write], cwd=tmp_path, check=True)
    listed = {"core": project()["project"]["dependencies"]} | project()["project"]["optional-dependencies"]
    for name in ("core", *files):
        assert (tmp_path / "requirements" / f"{name}.txt").read_text("utf-8").splitlines() == listed[name]
    (install,) = [rest for _, rest in instructions() if "${EXTRAS}" in rest and "core.txt" in rest]
    install = install.replace("/opt/tools/bin/pip", "echo").partition("&&")[0]
    variables = {"FRAMEWORKS": frameworks, "EXTRAS": extras}
    said = subprocess.run(["sh", "-ec", install], env=variables, capture_output=True, text=True, check=True)
    assert re.findall(r"-r requirements/(\w+)\.txt", said.stdout) == ["core", *files]


def test_every_package_reaches_the_build_and_nothing_else_does() -> None:
    folders = set(project()["tool"]["setuptools"]["package-dir"].values())
    sources = {source.rstrip("*") for source in copied_from_context()}
    assert folders <= sources
    rules = [
        line for line in (ROOT / ".dockerignore").read_text("utf-8").splitlines() if line[:1] not in ("", "#")
    ]
    assert rules[0] == "*"
    assert {rule[1:] for rule in rules if rule.startswith("!")} == sources


@contextmanager
def health_server(status: int, tls: ssl.SSLContext | None = None) -> Iterator[int]:
    """A server that answers GET /health with this status; its port."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status if self.path == "/health" else 404)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def health_check(port: int, **settings: str) -> int:
    """The image's health check, run here; its exit status."""
    program, *arguments = json.loads(only("HEALTHCHECK").partition("CMD")[2])
    assert program == "python3"
    # A proxy in the environment must not be asked for the node's own health.
    environment = {"FLNET_NODE_PORT": str(port), "http_proxy": "http://127.0.0.1:1", **settings}
    return subprocess.run(
        [sys.executable, *arguments], env=environment, capture_output=True, check=False
    ).returncode


@pytest.mark.parametrize(("status", "healthy"), [(200, True), (503, False)])
def test_the_health_check_believes_the_node(status: int, healthy: bool) -> None:
    with health_server(status) as port:
        assert (health_check(port) == 0) is healthy


def test_the_health_check_speaks_tls_to_a_node_of_a_pinned_mesh(tmp_path: Path) -> None:
    own_key(tmp_path)
    server_context(tmp_path, lambda: None)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(tmp_path / "page.crt", tmp_path / "page.key")
    with health_server(200, tls) as port:
        assert health_check(port, FLNET_MESH_MODE="pinned") == 0
    with health_server(200) as port:
        assert health_check(port, FLNET_MESH_MODE="pinned") != 0


def test_the_health_check_fails_where_nobody_listens() -> None:
    with health_server(200) as port:
        pass
    assert health_check(port) != 0


# The mesh of three.


def test_the_nodes_are_equal_but_for_name_shard_and_peers() -> None:
    environments = {node: environment_of(node) for node in NODES}
    own = {"FLNET_NODE_ID", "FLNET_DATA_SHARD", "FLNET_BOOTSTRAP_PAIRS"}
    shared = [{k: v for k, v in environment.items() if k not in own} for environment in environments.values()]
    assert shared[0] == shared[1] == shared[2]
    for index, (node, environment) in enumerate(environments.items(), start=1):
        settings = load_settings({}, image_environment() | environment)
        assert settings.node_id == node
        assert str(settings.data_shard) == f"{index}/{len(NODES)}"
        others = {f"{other}:{settings.node_port}" for other in NODES if other != node}
        assert set(settings.bootstrap_pairs) == others
    services = {key for key in blocks() if key.startswith("services.")}
    assert services == {f"services.{name}" for name in (*NODES, "first-round")}


def test_only_this_machine_reaches_the_published_ports() -> None:
    published = [port for node in NODES for port in listed(node, "ports")]
    assert published == ["127.0.0.1:4000:4000", "127.0.0.1:4001:4000", "127.0.0.1:4002:4000"]


def test_every_node_has_volumes_of_its_own_that_it_may_write() -> None:
    folders = [image_environment()[f"FLNET_{name}_PATH"] for name in ("STATE", "DATASETS")]
    mounts = [mount for node in NODES for mount in listed(node, "volumes")]
    assert [mount.partition(":")[2] for mount in mounts] == folders * len(NODES)
    named = [mount.partition(":")[0] for mount in mounts]
    assert sorted(named) == sorted(re.findall(r"^  ([\w-]+):$", blocks()["volumes"], flags=re.MULTILINE))
    assert len(set(named)) == len(named)


def test_the_first_round_waits_for_the_nodes_and_then_trains(tmp_path: Path) -> None:
    block = blocks()["services.first-round"]
    assert "profiles:\n      - first-round\n" in block  # not with "up"
    script = "\n".join(line.strip() for line in block.partition("- |\n")[2].splitlines())
    program = "#!/bin/sh\necho $0 $@ >> calls\n"
    for name, text in (
        ("flnet", program),
        ("sleep", program),
        ("python3", program + "test -e sleeps || { touch sleeps; exit 1; }\n"),
    ):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    variables = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
    subprocess.run(["sh", "-ec", script], cwd=tmp_path, env=variables, check=True, capture_output=True)
    calls = [
        Path(line.split()[0]).name for line in (tmp_path / "calls").read_text().splitlines() if line[:1] == "/"
    ]
    assert calls == ["python3", "sleep", "python3", "flnet"]
    assert (tmp_path / "calls").read_text().endswith("/flnet train MNIST --wait\n")


@pytest.mark.parametrize(
    "line",
    [
        "read_only: true",
        "tmpfs:\n    - /tmp",
        "cap_drop:\n    - ALL",
        "no-new-privileges:true",
        "init: true",
    ],
)
def test_a_node_gets_no_rights_that_it_does_not_need(line: str) -> None:
    assert line in blocks()["x-node"]
    assert all("<<: *node" in blocks()[f"services.{node}"] for node in NODES)
    assert "privileged: true" not in COMPOSE.read_text("utf-8")


def test_the_image_has_the_version_of_the_package() -> None:
    assert f"image: flnet:{project()['project']['version']}\n" in blocks()["x-node"]


@pytest.mark.parametrize("name", ["Dockerfile", "docker-compose.yml", "docs/docker.md"])
def test_every_variable_named_is_a_setting(name: str) -> None:
    named = set(re.findall(rf"{PREFIX}[A-Z_]+", (ROOT / name).read_text("utf-8")))
    assert named
    assert named <= KNOWN


@pytest.mark.skipif(shutil.which("docker-compose") is None, reason="needs docker-compose")
def test_docker_compose_understands_the_file() -> None:
    command = ["docker-compose", "-f", str(COMPOSE), "config", "-q"]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stderr
