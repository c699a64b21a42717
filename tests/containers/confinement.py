"""The confinement of containers by docker-compose.yml and the manifests, in the form of docker's arguments.

The tests start their containers with it, so they try what the files say.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
COMPOSE = ROOT / "docker-compose.yml"
MANIFESTS = ROOT / "deploy" / "kubernetes"


def services() -> dict[str, dict[str, Any]]:
    """Return {name: service} of docker-compose.yml."""
    found: dict[str, dict[str, Any]] = yaml.safe_load(COMPOSE.read_text())["services"]
    return found


def confinement(service: str) -> dict[str, Any]:
    """Return a service's rights as arguments of docker's client; only volumes without a name are taken."""
    given = services()[service]
    return {
        "cap_drop": given["cap_drop"],
        "security_opt": given["security_opt"],
        "read_only": given["read_only"],
        "tmpfs": dict(entry.split(":", 1) for entry in given["tmpfs"]),
        "volumes": [volume for volume in given.get("volumes", []) if ":" not in volume],
    }


def pod_of(manifest: str) -> dict[str, Any]:
    """Return the description of the manifest's pods."""
    for document in yaml.safe_load_all((MANIFESTS / manifest).read_text()):
        if document["kind"] in {"Deployment", "StatefulSet"}:
            pod: dict[str, Any] = document["spec"]["template"]["spec"]
            return pod
    raise ValueError(f"{manifest} describes no pods")


def as_in_a_pod(pod: dict[str, Any], container: dict[str, Any], folders: Path) -> list[str]:
    """Return the arguments of `docker run` for a container of a pod; make the pod's empty folders in `folders`."""
    context = {**pod["securityContext"], **container["securityContext"]}
    arguments = ["--user", str(context["runAsUser"])]
    arguments += [word for name in context["capabilities"]["drop"] for word in ("--cap-drop", name)]
    if not context["allowPrivilegeEscalation"]:
        arguments += ["--security-opt", "no-new-privileges:true"]
    if context.get("readOnlyRootFilesystem"):
        arguments.append("--read-only")
    empty = {volume["name"] for volume in pod["volumes"] if "emptyDir" in volume}
    for mount in container["volumeMounts"]:
        if mount["name"] not in empty:
            continue
        folder = folders / mount["name"]
        folder.mkdir(exist_ok=True)
        folder.chmod(0o777)  # the mode that the kubelet sets
        arguments += ["--volume", f"{folder / mount.get('subPath', '')}:{mount['mountPath']}"]
    return arguments
