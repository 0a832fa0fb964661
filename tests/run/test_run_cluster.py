"""Jobs on a Ray cluster: the results are those of one process, and a worker or node that dies is replaced."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from box_world import depth_map, eyes

from skyanchor.errors import InputError, SkyAnchorError
from skyanchor.events import Event, Listener, Progress
from skyanchor.geometry import cameras
from skyanchor.run import cluster
from skyanchor.run.cluster import OnRay, Room, asked
from skyanchor.run.executor import InProcess, executor_of
from skyanchor.run.job import Job
from skyanchor.run.pool import WORKER_BYTES, WorkerError
from skyanchor.stereo import load_depth, make_consistent, save_depth

ray = pytest.importorskip("ray", reason="Ray is not installed (pip install 'skyanchor[ray]'): no job ran on a cluster")


@pytest.fixture(scope="module")
def engine() -> Iterator[OnRay]:
    yield OnRay()
    ray.shutdown()


def half(number: int, listen: Listener) -> dict[str, float]:
    print("libraries print what they like")
    listen(Progress("test", "halves", number, 4))
    return {"half": number / 2, "threads": float(os.environ["OMP_NUM_THREADS"])}


def refuse(listen: Listener) -> None:
    raise InputError("photo.jpg", "cannot be read", "Give another")


def crash(listen: Listener) -> None:
    raise ZeroDivisionError("by design")


def die_once(flag: str, listen: Listener) -> str:
    if not Path(flag).exists():
        Path(flag).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return "alive"


def die(listen: Listener) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def agree(own: str, others: list[str], out: str, listen: Listener) -> None:
    save_depth(Path(out), make_consistent(load_depth(Path(own)), [load_depth(Path(path)) for path in others]))


def tell_and_wait(folder: str, number: int, listen: Listener) -> int:
    """Leave a note on which node the job began, then take a while."""
    node = ray.get_runtime_context().get_node_id()
    Path(folder, f"{number}-{node}-{time.monotonic_ns()}").touch()
    time.sleep(2.0)
    return number * number


# --- one machine ----------------------------------------------------------------------------------------------------


def test_results_in_order_with_events_and_threads_capped(engine: OnRay) -> None:
    heard: list[Event] = []
    finished: list[int] = []
    jobs = [Job.of(half, number=n) for n in range(4)]
    results = engine.run(jobs, heard.append, lambda index, _: finished.append(index))
    assert results == [{"half": n / 2, "threads": 1.0} for n in range(4)]
    assert sorted(finished) == [0, 1, 2, 3]
    assert {event.done for event in heard if isinstance(event, Progress)} == {0, 1, 2, 3}
    assert engine.run([]) == []


def test_errors_read_as_they_do_in_processes(engine: OnRay) -> None:
    with pytest.raises(SkyAnchorError, match=r"photo\.jpg.*cannot be read.*Give another"):
        engine.run([Job.of(refuse)])
    with pytest.raises(RuntimeError, match="ZeroDivisionError: by design"):
        engine.run([Job.of(crash)])


def test_a_worker_that_dies_is_replaced_and_one_that_always_dies_is_named(
    engine: OnRay, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert engine.run([Job.of(die_once, flag=tmp_path / "flag")]) == ["alive"]
    monkeypatch.setattr(cluster, "RETRIES", 0)
    with pytest.raises(WorkerError, match=r"test_run_cluster:die: its worker died 1 times"):
        engine.run([Job.of(die)])


def test_files_are_the_same_bytes_as_in_this_process(
    engine: OnRay, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With relative paths too: a job works in the caller's folder."""
    monkeypatch.chdir(tmp_path)
    camera = cameras.pinhole(96, 72, 80.0)
    for k, pose in enumerate(eyes(4)):
        save_depth(Path(f"{k}.npz"), depth_map(f"{k}.png", camera, pose, 2e-3, k))
    near = ["0.npz", "1.npz", "2.npz", "3.npz"]
    for name, one in (("here", InProcess()), ("ray", engine)):
        one.run([Job.of(agree, own=path, others=[p for p in near if p != path], out=f"{name}/{path}") for path in near])
    for path in near:
        assert Path("here", path).read_bytes() == Path("ray", path).read_bytes()


def test_a_job_asks_for_no_more_than_there_is() -> None:
    small = Room(cores=2, bytes=1 << 30)
    assert asked(Job("a:b"), 8, small) == {"num_cpus": 2, "memory": 1 << 30}
    large = Room(cores=64, bytes=256 << 30, gpu_bytes=40 << 30)
    assert asked(Job("a:b"), 1, large) == {"num_cpus": 1, "memory": WORKER_BYTES, "num_gpus": 1 / 8}
    assert asked(Job("a:b", alone=True), 1, large)["num_gpus"] == 1.0
    assert "num_gpus" not in asked(Job("a:b", gpu=False), 1, large)
    assert asked(Job("a:b"), 1, Room(4, 16 << 30, 2 << 30))["num_gpus"] == 1.0


def test_engines_by_name() -> None:
    assert executor_of(3, "ray") == OnRay("", 3) and executor_of(0, "ray:10.0.0.7:6379") == OnRay("10.0.0.7:6379", 0)
    assert executor_of(1, "processes") == InProcess()
    with pytest.raises(SkyAnchorError, match="there is no engine dask: processes, ray or ray:HOST:PORT"):
        executor_of(0, "dask")


# --- two nodes ------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_node_that_dies_in_mid_run_is_made_up_for(tmp_path: Path) -> None:
    from ray.cluster_utils import Cluster

    ray.shutdown()
    head = {"num_cpus": 1, "include_dashboard": False, "_system_config": {"worker_niceness": 0}}
    nodes = Cluster(initialize_head=True, head_node_args=head)
    second = nodes.add_node(num_cpus=1)
    nodes.wait_for_nodes()

    def kill_the_second() -> None:
        while not any(second.node_id in path.name for path in tmp_path.iterdir()):
            time.sleep(0.05)
        nodes.remove_node(second, allow_graceful=False)

    killer = threading.Thread(target=kill_the_second, daemon=True)
    killer.start()
    try:
        jobs = [Job.of(tell_and_wait, folder=tmp_path, number=n) for n in range(6)]
        assert OnRay(nodes.address).run(jobs) == [n * n for n in range(6)]
        killer.join(timeout=60.0)
        begun = {tuple(path.name.split("-")[:2]) for path in tmp_path.iterdir()}
        lost, elsewhere = ({job for job, node in begun if (node == second.node_id) is there} for there in (True, False))
        assert not killer.is_alive() and lost and lost <= elsewhere, begun
    finally:
        ray.shutdown()
        nodes.shutdown()
