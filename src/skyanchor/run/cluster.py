"""Jobs on the nodes of a Ray cluster: the same jobs, and the same results, as in processes of one machine.

Only names of functions and JSON travel. The files that the arguments name, run folder and photos included, lie on
storage that every node sees under the same path. A job whose worker or node dies is run again, elsewhere where its node
is gone.
"""

from __future__ import annotations

import importlib
import json
import os
from collections import deque
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from skyanchor.errors import SkyAnchorError
from skyanchor.events import Event, Listener, silent
from skyanchor.run.job import Job, answer, event_body, event_of, outcome
from skyanchor.run.pool import CUDA_WORKER_BYTES, WORKER_BYTES, Done, WorkerError
from skyanchor.run.worker import cores, worker_variables
from skyanchor.storage.codec import Json

RETRIES = 3
"""Times that a job is run again when its worker or node dies."""
LOOK_S = 0.2
"""Between two looks for events while all jobs are at work, seconds."""
STORE_BYTES = 100 << 20
"""Shared memory of a cluster that is started here: jobs exchange little but names of files."""


@dataclass(frozen=True)
class OnRay:
    """The nodes of a Ray cluster, or one of this machine's cores that is started here and ends with the process."""

    address: str = ""
    """HOST:PORT of a cluster, or `auto` for the one that this machine belongs to; empty starts one."""
    workers: int = 0
    """Jobs at a time, at most; 0 is as many as the nodes have room for."""
    threads: int = 1
    """Threads, and cores, of each job."""

    def run(self, jobs: Sequence[Job], listen: Listener = silent, done: Done | None = None) -> list[Json]:
        """The jobs' results in order; events reach the listener on the caller's thread."""
        if not jobs:
            return []
        cluster = Cluster.at(self.address, self.threads)
        waiting, results = deque(range(len(jobs))), dict[int, Json]()
        working: dict[Any, int] = {}
        try:
            while len(results) < len(jobs):
                while waiting and (not self.workers or len(working) < self.workers):
                    index = waiting.popleft()
                    working[cluster.begin(jobs[index])] = index
                ended = cluster.ended(list(working))
                for event in cluster.events():
                    listen(event)
                for one in ended:
                    index = working.pop(one)
                    results[index] = cluster.result(one, jobs[index])
                    if done is not None:
                        done(index, results[index])
        finally:
            cluster.leave(working)
        return [results[index] for index in range(len(jobs))]

    def held(self, modules: tuple[str, ...] = ()) -> AbstractContextManager[None]:
        """Nothing to hold: the cluster keeps workers for the jobs that follow."""
        return nullcontext()

    def ahead(self, jobs: Sequence[Job]) -> None:
        """Nobody waits: the cluster is others' as well."""


def connected(address: str) -> Any:
    """Ray, connected to the cluster; SkyAnchorError where it is not installed or no cluster answers."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        ray: Any = importlib.import_module("ray")
    except ImportError as error:
        raise SkyAnchorError("--engine ray needs Ray: pip install 'skyanchor[ray]'") from error
    if ray.is_initialized():
        return ray
    alike = {"worker_niceness": 0}  # as this process; Ray's own workers stand back otherwise
    own = {} if address else {"num_cpus": cores(), "object_store_memory": STORE_BYTES, "_system_config": alike}
    try:
        ray.init(address or "local", log_to_driver=False, logging_level="error", include_dashboard=False, **own)
    except (ConnectionError, ValueError, RuntimeError) as error:
        advice = "Start one with `ray start --head`, or give no address to use this machine alone."
        raise SkyAnchorError(f"no Ray cluster answers at {address} ({str(error).splitlines()[0]}). {advice}") from error
    return ray


# --- the caller's side --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Room:
    """The most that one node of a cluster has."""

    cores: int
    bytes: int
    gpu_bytes: int = 0
    """Memory of a GPU; 0 where no node has one."""


def asked(job: Job, threads: int, room: Room) -> dict[str, float]:
    """What a job asks of a node, as Ray names it: never more than there is, or it would wait for ever."""
    asks: dict[str, float] = {"num_cpus": min(threads, room.cores), "memory": min(WORKER_BYTES, room.bytes)}
    if job.gpu and room.gpu_bytes:
        asks["num_gpus"] = 1.0 if job.alone else 1.0 / max(1, room.gpu_bytes // CUDA_WORKER_BYTES)
    return asks


@dataclass(frozen=True, eq=False)
class Cluster:
    """A connection to a cluster for the length of one run."""

    ray: Any
    mailbox: Any
    """An actor that keeps the jobs' events until they are fetched."""
    room: Room
    threads: int

    @staticmethod
    def at(address: str, threads: int) -> Cluster:
        """The cluster at an address."""
        ray = connected(address)
        here = ray.get_runtime_context()
        cluster = Cluster(ray, _mailbox(here.get_node_id(), here.get_job_id()), _room(ray), threads)
        cluster.events()  # of a run that was broken off
        return cluster

    def begin(self, job: Job) -> Any:
        """Ray's name for the job, which runs as soon as a node has room."""
        environment = {"env_vars": worker_variables(self.threads)}
        task = self.ray.remote(_served).options(
            max_retries=RETRIES, runtime_env=environment, **asked(job, self.threads, self.room)
        )
        return task.remote(job.function, json.dumps(dict(job.arguments)), str(Path.cwd()), self.mailbox)

    def ended(self, working: list[Any]) -> list[Any]:
        """Those of the jobs that came to their end, after a short wait."""
        ended, _ = self.ray.wait(working, timeout=LOOK_S)
        return list(ended)

    def events(self) -> list[Event]:
        """What the jobs told since the last time."""
        return [event_of(json.loads(line)) for line in self.ray.get(self.mailbox.taken.remote())]

    def result(self, ended: Any, job: Job) -> Json:
        """What the job returned; its error is raised."""
        try:
            return outcome(json.loads(self.ray.get(ended)), job)
        except self.ray.exceptions.RayTaskError as error:  # a node without this package, for instance
            raise RuntimeError(f"{job.function} failed on the cluster:\n{error}") from error
        except self.ray.exceptions.RayError as error:
            how = str(error).strip().splitlines()[0]
            raise WorkerError(f"{job.function}: its worker died {RETRIES + 1} times on the cluster ({how}).") from error

    def leave(self, working: Iterable[Any]) -> None:
        """Break off what is still at work."""
        for one in working:
            self.ray.cancel(one, force=True)


def _room(ray: Any) -> Room:
    nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    gpu = ray.get(ray.remote(_gpu_bytes).options(num_cpus=0, num_gpus=0.001).remote()) if _some(nodes, "GPU") else 0
    return Room(max(1, int(_some(nodes, "CPU"))), int(_some(nodes, "memory")), gpu)


def _some(nodes: list[dict[str, float]], name: str) -> float:
    """The most of a resource that any node has."""
    return max((node.get(name, 0.0) for node in nodes), default=0.0)


@lru_cache(maxsize=1)
def _mailbox(node: str, connection: str) -> Any:
    """An actor on this node that keeps events until they are fetched, for the length of a connection."""
    ray = connected("")
    strategies = importlib.import_module("ray.util.scheduling_strategies")
    here = strategies.NodeAffinitySchedulingStrategy(node, soft=False)

    class Mailbox:  # travels as it stands here: its process need not import this package
        def __init__(self) -> None:
            self.lines: list[str] = []

        def put(self, line: str) -> None:
            self.lines.append(line)

        def taken(self) -> list[str]:
            lines, self.lines = self.lines, []
            return lines

    kept = {"num_cpus": 0, "max_restarts": -1, "max_task_retries": -1}
    return ray.remote(Mailbox).options(scheduling_strategy=here, **kept).remote()


# --- the nodes' side ----------------------------------------------------------------------------------------------


def _gpu_bytes() -> int:
    import torch

    return int(torch.cuda.mem_get_info()[1]) if torch.cuda.is_available() else 0


def _served(function: str, arguments: str, folder: str, mailbox: Any) -> str:
    """What a job answers, run in the caller's working folder."""
    ray: Any = importlib.import_module("ray")
    try:
        os.chdir(folder)
    except OSError:
        advice = "A cluster needs storage that every node sees under the same path."
        return json.dumps({"error": f"a node of the cluster has no folder {folder}. {advice}"})

    def listen(event: Event) -> None:
        ray.get(mailbox.put.remote(json.dumps(event_body(event))))

    return json.dumps(answer(Job(function, json.loads(arguments)), listen))
