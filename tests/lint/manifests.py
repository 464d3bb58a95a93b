#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""The container manifests parse, and everywhere the daemon gets two capabilities and nothing else."""
import os
import sys

import yaml

DOCKER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../docker")
RIGHTS = {"BPF", "PERFMON"}


def pods(document):
    template = document.get("spec", {}).get("template", {}) if document else {}
    if template:
        yield document["kind"], template["spec"]


def check_kubernetes(name):
    with open(os.path.join(DOCKER, "kubernetes", name), encoding="utf-8") as file:
        documents = list(yaml.safe_load_all(file))
    daemons = 0
    for document in documents:
        for kind, pod in pods(document):
            mounted = {mount["name"] for container in pod["containers"] for mount in container["volumeMounts"]}
            known = {volume["name"] for volume in pod.get("volumes", [])}
            known |= {claim["metadata"]["name"] for claim in document["spec"].get("volumeClaimTemplates", [])}
            if mounted != known:
                yield f"{name}: {kind}: volumes {sorted(known)}, mounted {sorted(mounted)}"
            for shared in ("hostPID", "hostNetwork", "hostIPC", "shareProcessNamespace"):
                if pod.get(shared):
                    yield f"{name}: {kind}: {shared}"
            for container in pod["containers"]:
                rights = container["securityContext"]
                wanted = RIGHTS if container["name"] == "flushlightd" else set()
                daemons += container["name"] == "flushlightd"
                if rights.get("privileged") or rights.get("allowPrivilegeEscalation") is not False:
                    yield f"{name}: {container['name']}: may gain rights"
                if rights["capabilities"]["drop"] != ["ALL"] or set(rights["capabilities"].get("add", [])) != wanted:
                    yield f"{name}: {container['name']}: capabilities {rights['capabilities']}"
    if daemons != 1:
        yield f"{name}: {daemons} daemons"


def check_compose():
    with open(os.path.join(DOCKER, "compose.yaml"), encoding="utf-8") as file:
        services = yaml.safe_load(file)["services"]
    daemon = services["flushlightd"]
    if daemon["cap_drop"] != ["ALL"] or set(daemon["cap_add"]) != RIGHTS or daemon.get("privileged"):
        yield "compose.yaml: flushlightd's capabilities"
    for name, service in services.items():
        if not any(volume.startswith("flushlight:") for volume in service["volumes"]):
            yield f"compose.yaml: {name} does not share the socket folder"
        if service.get("pid"):
            yield f"compose.yaml: {name} shares a PID namespace"


def main():
    names = [name for name in sorted(os.listdir(os.path.join(DOCKER, "kubernetes"))) if name.endswith(".yaml")]
    problems = list(check_compose())
    for name in names:
        problems += check_kubernetes(name)
    for problem in problems:
        print(problem)
    print(f"manifests: {len(names) + 1} files, {len(problems)} offences")
    return 1 if problems or len(names) < 2 else 0


if __name__ == "__main__":
    sys.exit(main())
