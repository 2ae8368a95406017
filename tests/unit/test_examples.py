"""The files of examples/: what each names is there, and what is written by hand in two places is the same in both."""

from __future__ import annotations

import configparser
import importlib.util
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from examples.celery.local import Cluster, ClusterError, Ports
from pincite import __version__
from pipelines.settings.base import settings_from
from resources.dagster_instance.home import _SETTINGS
from tests.support.places import ROOT
from tests.support.waiting import ends

CELERY, KUBERNETES = ROOT / "examples" / "celery", ROOT / "examples" / "kubernetes"
API = "1.34"
SHARED = ("run_monitoring", "run_retries", "compute_logs", "telemetry", "nux")
OWN = {"run_monitoring": {"start_timeout_seconds"}}
"""What an instance of many machines says of these beside what a state's own one does."""


def loaded(path: Path) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all(path.read_text(encoding="utf-8")))


def named(kind: str, name: str) -> dict[str, Any]:
    every = [item for path in sorted(KUBERNETES.glob("*.yaml")) for item in loaded(path)]
    (found,) = [item for item in every if item["kind"] == kind and item["metadata"].get("name") == name]
    return found


def environment() -> dict[str, str]:
    lines = (CELERY / "environment").read_text(encoding="utf-8").splitlines()
    return dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))


def instances() -> dict[str, dict[str, Any]]:
    within = named("ConfigMap", "pincite")["data"]["dagster.yaml"]
    return {"celery": loaded(CELERY / "dagster.yaml")[0], "kubernetes": yaml.safe_load(within)}


@pytest.mark.parametrize("which", ["celery", "kubernetes"])
def test_runs_are_watched_and_tried_again_as_those_of_one_machine(which: str) -> None:
    of_a_state = yaml.safe_load(_SETTINGS)
    instance = instances()[which]
    for name in SHARED:
        found = {key: value for key, value in instance[name].items() if key not in OWN.get(name, ())}
        assert found == of_a_state[name], name


@pytest.mark.parametrize("which", ["celery", "kubernetes"])
def test_dagster_reads_its_instance(which: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    launcher = {"celery": "dagster_celery", "kubernetes": "dagster_k8s"}[which]
    for module in (launcher, "dagster_postgres"):
        if importlib.util.find_spec(module) is None:
            pytest.skip(f"{module} is not installed: pip install 'pincite[distributed,kubernetes]'")
    from dagster._core.instance.config import dagster_instance_config
    from dagster._core.instance.ref import InstanceRef

    for name, value in environment().items():
        monkeypatch.setenv(name, value)
    if which == "kubernetes":  # of which there is none here
        monkeypatch.setattr("kubernetes.config.load_incluster_config", lambda: None)
    (tmp_path / "dagster.yaml").write_text(yaml.safe_dump(instances()[which]))
    dagster_instance_config(str(tmp_path))
    ref = InstanceRef.from_dir(str(tmp_path))
    assert ref.run_launcher is not None and type(ref.run_launcher).__name__.endswith("RunLauncher")


@pytest.mark.parametrize("origin", ["celery", "kubernetes"])
def test_pincite_reads_its_settings(origin: str) -> None:
    text = (
        (CELERY / "pincite.yaml").read_text()
        if origin == "celery"
        else named("ConfigMap", "pincite")["data"]["pincite.yaml"]
    )
    settings = settings_from(yaml.safe_load(text), origin)
    assert settings.buckets_per_run and settings.buckets_per_run < settings.buckets


def test_a_message_outlives_the_longest_run() -> None:
    instance = instances()["celery"]
    launcher = instance["run_launcher"]["config"]["config_source"]["broker_transport_options"]
    worker = (CELERY / "dagster_celery_config.py").read_text(encoding="utf-8")
    found = re.search(r'"visibility_timeout": (\d+)', worker)
    assert found and int(found[1]) == launcher["visibility_timeout"]
    assert launcher["visibility_timeout"] > instance["run_monitoring"]["max_runtime_seconds"]


def test_no_more_runs_are_begun_than_two_workers_take() -> None:
    """A run that waits in Redis and not in Dagster is failed after start_timeout_seconds."""
    assert instances()["celery"]["concurrency"]["runs"]["max_concurrent_runs"] == 2
    assert "--concurrency 1 " in unit("worker")["Service"]["ExecStart"]


def unit(name: str) -> configparser.ConfigParser:
    parser = configparser.ConfigParser(interpolation=None, strict=False)
    parser.optionxform = str  # type: ignore[assignment, method-assign]
    parser.read(CELERY / f"pincite-{name}.service", encoding="utf-8")
    return parser


@pytest.mark.parametrize("name", ["daemon", "webserver", "worker"])
def test_units_and_containers_run_the_same_command(name: str) -> None:
    service = unit(name)["Service"]
    program, *arguments = service["ExecStart"].split()
    command = loaded(CELERY / "compose.yaml")[0]["services"][name]["command"]
    own = {"-h": ("0.0.0.0", "127.0.0.1"), "--hostname": ("pincite@%h", "pincite@%H")}
    assert program == f"/opt/pincite/bin/{command[0]}"
    for position, argument in enumerate(command[1:]):
        before = command[position]
        assert arguments[position] == argument or (argument, arguments[position]) == own.get(before), argument
    assert service["EnvironmentFile"] == "/etc/pincite/environment" and service["User"] == "pincite"


def test_every_address_that_is_asked_of_the_environment_is_in_it() -> None:
    asked = set()
    for file in (CELERY / "dagster.yaml", CELERY / "dagster_celery_config.py"):
        asked |= set(re.findall(r'env: (\w+)|environ\["(\w+)"\]', file.read_text(encoding="utf-8")))
    names = {first or second for first, second in asked}
    assert names and names <= set(environment())


@pytest.mark.parametrize("file", sorted(KUBERNETES.glob("*.yaml")), ids=lambda path: path.name)
def test_manifests_are_what_the_api_takes(file: Path) -> None:
    import kubernetes_validate

    for item in loaded(file):
        kubernetes_validate.validate(item, API, strict=True)


def manifests(kind: str) -> list[dict[str, Any]]:
    return [item for path in sorted(KUBERNETES.glob("*.yaml")) for item in loaded(path) if item["kind"] == kind]


def camel(value: Any) -> Any:
    """Keys as Kubernetes spells them, of what Dagster's launcher spells in its own way."""
    if isinstance(value, list):
        return [camel(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {re.sub(r"_(\w)", lambda found: found[1].upper(), key): camel(item) for key, item in value.items()}


def pods() -> dict[str, dict[str, Any]]:
    """Every pod of the example by its name: those of the manifests, and that of a run, which Dagster makes."""
    found = {}
    for kind in ("Deployment", "Job", "CronJob", "StatefulSet", "DaemonSet", "Pod"):
        for item in manifests(kind):
            spec = item["spec"].get("jobTemplate", item)["spec"]
            name = item["metadata"].get("name") or item["metadata"]["generateName"]
            found[name] = spec["template"]["spec"] if "template" in spec else spec
    launcher = instances()["kubernetes"]["run_launcher"]["config"]
    made = launcher["run_k8s_config"]
    container = {"name": "run", "image": launcher["job_image"], **camel(made["container_config"])}
    account = launcher["service_account_name"]
    found["run"] = {"serviceAccountName": account, **camel(made["pod_spec_config"]), "containers": [container]}
    return found


def test_every_pod_is_one_that_the_strictest_standard_of_kubernetes_takes() -> None:
    """Pod Security Standards, `restricted`, and a root file system that nothing writes to."""
    (namespace,) = manifests("Namespace")
    assert namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"
    assert len(pods()) == 4
    for name, pod in pods().items():
        assert not {"hostNetwork", "hostPID", "hostIPC"} & pod.keys(), name
        context = pod["securityContext"]
        assert context["runAsNonRoot"] is True and context["seccompProfile"] == {"type": "RuntimeDefault"}, name
        volumes = {volume["name"]: volume for volume in pod["volumes"]}
        assert all("configMap" in volume or "sizeLimit" in volume["emptyDir"] for volume in pod["volumes"]), name
        for container in [*pod["containers"], *pod.get("initContainers", ())]:
            confined = container["securityContext"]
            assert confined["readOnlyRootFilesystem"] and confined["allowPrivilegeEscalation"] is False, name
            assert confined["capabilities"] == {"drop": ["ALL"]} and not confined.get("privileged"), name
            assert {"memory", "ephemeral-storage"} <= container["resources"]["limits"].keys(), name
            assert "/tmp" in {mount["mountPath"] for mount in container["volumeMounts"]}, name
            assert not any("value" in variable for variable in container.get("env", ())), name
            for mount in container["volumeMounts"]:
                volume = volumes[mount["name"]]
                if "configMap" in volume:
                    assert mount["readOnly"] is True, name
                    data = named("ConfigMap", volume["configMap"]["name"])["data"]
                    assert mount.get("subPath", "pincite.yaml") in data
            for source in container["envFrom"]:
                ((kind, reference),) = source.items()
                assert kind == "secretRef" or named("ConfigMap", reference["name"])


def test_processes_that_read_documents_have_no_rights_in_the_cluster() -> None:
    """Only what steers has an account with a role, and its token."""
    bound = {
        subject["name"]: binding["roleRef"]["name"]
        for binding in manifests("RoleBinding")
        for subject in binding["subjects"]
    }
    assert not manifests("ClusterRoleBinding")
    assert bound.keys() == {"pincite-daemon", "pincite-webserver"} and all(map(str.__eq__, bound, bound.values()))
    accounts = manifests("ServiceAccount")
    assert all(account["automountServiceAccountToken"] is False for account in accounts)
    assert {pod["serviceAccountName"] for pod in pods().values()} == {item["metadata"]["name"] for item in accounts}
    for name, pod in pods().items():
        assert pod["automountServiceAccountToken"] is (name in bound), name
        assert (pod["serviceAccountName"] in bound) is (name in bound), name


def test_the_rights_are_those_to_make_jobs_and_no_others() -> None:
    writable: dict[str, set[tuple[str, str]]] = {}
    for role in manifests("Role"):
        assert all("*" not in rule["verbs"] + rule["resources"] + rule["apiGroups"] for rule in role["rules"])
        writable[role["metadata"]["name"]] = {
            (name, verb)
            for rule in role["rules"]
            for name in rule["resources"]
            for verb in rule["verbs"]
            if verb not in ("get", "list")
        }
    ends = {("jobs", "delete"), ("pods", "delete")}
    assert writable == {"pincite-daemon": {("jobs", "create"), *ends}, "pincite-webserver": ends}


def test_pods_reach_only_what_a_policy_names_and_are_reached_by_nothing() -> None:
    policies = [item["spec"] for item in manifests("NetworkPolicy")]
    assert {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]} in policies, "the one that denies all"
    assert not any("ingress" in policy for policy in policies)
    for rule in (rule for policy in policies for rule in policy.get("egress", ())):
        assert rule["to"] and rule["ports"]
        for block in (peer["ipBlock"] for peer in rule["to"] if "ipBlock" in peer):
            assert ":" in block["cidr"] or "169.254.0.0/16" in block["except"], "link-local addresses give credentials"


SECRETS = re.compile(r"(?i)passw|secret|token|credential")


def test_no_example_has_a_password() -> None:
    """Neither one that is printed, nor one that is taken where a variable is missing."""
    assert not manifests("Secret")
    files = [path for path in (ROOT / "examples").rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    assert len(files) > 15
    for path in files:
        text = path.read_text(encoding="utf-8")
        assert not re.findall(r"\w+://[^\s/@:]*:[^\s/@{}]+@", text), f"{path.name}: an address with a password"
        assert not re.findall(r"\$\{\w*(?:PASSWORD|SECRET|TOKEN)\w*:?-", text), f"{path.name}: a default"
    assert not {name: value for name, value in environment().items() if SECRETS.search(name) and value}


def test_containers_of_compose_are_confined_and_publish_to_addresses_that_are_named() -> None:
    for name, service in loaded(CELERY / "compose.yaml")[0]["services"].items():
        assert service["read_only"] and service["cap_drop"] == ["ALL"], name
        assert service["security_opt"] == ["no-new-privileges:true"] and not service.get("privileged"), name
        assert "user" in service or service["image"].startswith("pincite:"), f"{name}: root"
        assert service.get("network_mode") is None, name
        assert not [volume for volume in service["volumes"] if volume.startswith((".:", "./:", "/"))], name
        for port in service.get("ports", ()):
            assert re.match(r"127\.0\.0\.1:|\$\{\w+:\?[^}]+\}:", str(port)), f"{name}: {port} is opened to everybody"
        for variable, value in service.get("environment", {}).items():
            assert not SECRETS.search(variable) or re.fullmatch(r"\$\{\w+:\?set \w+ in \.env [^}]+\}", value), name


def test_the_container_of_one_machine_is_confined_and_reads_its_documents_only() -> None:
    (service,) = loaded(ROOT / "examples" / "compose.yaml")[0]["services"].values()
    assert service["read_only"] and service["cap_drop"] == ["ALL"] and not service.get("privileged")
    assert service["security_opt"] == ["no-new-privileges:true"] and "ports" not in service
    state, documents = service["volumes"]
    assert state == "state:/var/lib/pincite" and re.fullmatch(r"\$\{DOCUMENTS:\?[^}]+\}:/documents:ro", documents)
    assert ((ROOT / "examples" / service["build"]["context"]).resolve() / service["build"]["dockerfile"]).is_file()


def test_images_are_of_this_version() -> None:
    files = [
        path for path in (ROOT / "examples").rglob("*") if path.suffix in (".yaml", ".md") or path.stem == "Dockerfile"
    ]
    named = {
        version for path in files for version in re.findall(r"pincite:(\d[\w.]*)", path.read_text(encoding="utf-8"))
    }
    assert named == {__version__}


def test_network_traffic_is_encrypted() -> None:
    for name, value in environment().items():
        assert not re.match(r"redis://|http://", value), name
        assert not re.match(r"(?:db\+)?postgres", value) or "sslmode=verify-full" in value, name
    services = loaded(CELERY / "compose.yaml")[0]["services"]
    assert "--port 0 --tls-port 6379" in services["redis"]["command"][2] and "ssl=on" in services["postgres"]["command"]


@pytest.mark.parametrize("name", ["daemon", "webserver", "worker"])
def test_units_are_confined(name: str) -> None:
    service = unit(name)["Service"]
    assert service["ProtectSystem"] == "strict" and service["CapabilityBoundingSet"] == ""
    on = ("NoNewPrivileges", "PrivateTmp", "ProtectHome", "ProtectKernelTunables", "RestrictSUIDSGID")
    assert all(service[key] == "yes" for key in on) and service["UMask"] == "0077"


def test_a_port_that_is_taken_is_one_line_with_the_remedy() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(ClusterError, match=f"^port {port} of 127.0.0.1 is taken .*PORT={port + 1000}$"):
            Ports.after(port).require_free()


def test_a_missing_redis_is_one_line_with_the_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ClusterError, match=r"^there is no redis-server here: apt-get install redis-server\b[^\n]*$"):
        Cluster(tmp_path, Ports.free()).start_redis()


def test_a_started_process_is_ended_with_all_its_children(tmp_path: Path) -> None:
    """A process that hears no SIGTERM, and its child."""
    made = Cluster(tmp_path, Ports.free())
    deaf = "trap '' TERM; sleep 600 & echo $!; wait"
    service = made.start("deaf", ["/bin/sh", "-c", deaf], ready=lambda: service_log(tmp_path).endswith("\n"))
    child = int(service_log(tmp_path))
    service.end(seconds=0.1)
    assert service.process.returncode == -signal.SIGKILL
    assert ends(child)


def service_log(folder: Path) -> str:
    return (folder / "logs" / "deaf.log").read_text(encoding="utf-8")


def test_a_started_process_ends_when_its_starter_is_killed(tmp_path: Path) -> None:
    starter = (
        "import sys, pathlib, signal, os\nfrom examples.celery.local import Cluster, Ports\n"
        "made = Cluster(pathlib.Path(sys.argv[1]), Ports.free())\n"
        "said = pathlib.Path(sys.argv[1], 'said')\n"
        "begun = lambda: said.exists() and said.read_text()\n"  # from then on it is told of the end of its starter
        "sleeper = ['sh', '-c', 'echo begun; exec sleep 600']\n"
        "print(made.start('sleeper', sleeper, ready=begun, output=said).pid, flush=True)\nsignal.pause()"
    )
    command = [sys.executable, "-c", starter, str(tmp_path)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        child = int(process.stdout.readline())
        process.kill()
    assert ends(child)


def test_a_process_whose_starter_is_killed_meanwhile_does_nothing(tmp_path: Path) -> None:
    """The starter is gone before the kernel is asked to tell of its end."""
    slow = tmp_path / "bin" / "setpriv"
    slow.parent.mkdir()
    slow.write_text(
        f'#!/bin/sh\nkill -KILL $PPID\nwhile kill -0 $PPID 2>&-; do :; done\nexec {shutil.which("setpriv")} "$@"\n'
    )
    slow.chmod(0o755)
    starter = (
        "import sys, pathlib\nfrom examples.celery.local import Cluster, Ports\n"
        "made = Cluster(pathlib.Path(sys.argv[1]), Ports.free())\n"
        "begins = ['sh', '-c', 'echo began >&2; exec sleep 600']\n"
        "made.start('late', begins, ready=lambda: False, output=pathlib.Path(sys.argv[2]))"
    )
    out, into = os.pipe()
    os.set_inheritable(into, True)
    command = [sys.executable, "-c", starter, str(tmp_path), f"/dev/fd/{into}"]
    environment = {**os.environ, "PATH": f"{slow.parent}:{os.environ['PATH']}"}
    with subprocess.Popen(command, cwd=ROOT, env=environment, pass_fds=[into]) as process:
        os.close(into)
    assert process.returncode == -signal.SIGKILL
    with open(out, "rb") as waiting:
        assert waiting.read() == b""  # it ends with the last process that has it open
    assert (tmp_path / "logs" / "late.log").read_text() == ""
