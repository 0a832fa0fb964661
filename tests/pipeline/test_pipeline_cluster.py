"""Stages on a Ray cluster: the same bytes as processes leave, also where a node dies in mid-run."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import paper_street
import pytest
from test_pipeline_whole import small

from skyanchor import pipeline
from skyanchor.events import SCAFFOLD, TRAJECTORY
from skyanchor.pipeline import PipelineConfig
from skyanchor.run.cluster import OnRay
from skyanchor.run.executor import Executor, InProcess, Processes
from skyanchor.run.folder import RunFolder
from skyanchor.run.inputs import Inputs
from skyanchor.sequence import SequenceConfig

ray = pytest.importorskip(
    "ray", reason="Ray is not installed (pip install 'skyanchor[ray]'): no stage ran on a cluster"
)

FRAMES = 14
MEASURED = ("timings.json", "memory.json", "anchor_seconds.json", "trajectory_seconds.json")
"""What depends on the machine."""
STORE_BYTES = 100 << 20


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("paper")
    paper_street.write_scene(root, FRAMES)
    return root


def settings(width: int) -> PipelineConfig:
    """Small ones, with aerial depth of so many pixels."""
    config, sequence = small(), SequenceConfig(camera="PINHOLE,230,230,160,90")
    stereo = replace(config.geometry.stereo, width=width)
    return replace(config, sequence=sequence, geometry=replace(config.geometry, stereo=stereo))


def made(scene: Path, root: Path, executor: Executor, upto: str, width: int = 240) -> dict[str, bytes]:
    """All that a run leaves but for what was measured of the machine."""
    with RunFolder(root) as run:
        pipeline.run(run, Inputs(scene / "aerial", scene / "ground"), settings(width), executor, upto)
    found = [path for path in root.rglob("*") if path.is_file() and ".state" not in path.parts]
    return {str(path.relative_to(root)): path.read_bytes() for path in found if path.name not in MEASURED}


def differing(a: dict[str, bytes], b: dict[str, bytes]) -> list[str]:
    """Names of files that are not in both, or not the same."""
    return sorted(name for name in a.keys() | b.keys() if a.get(name) != b.get(name))


# --- one machine --------------------------------------------------------------------------------------------------


@pytest.fixture
def engine() -> Iterator[OnRay]:
    yield OnRay(workers=2)
    ray.shutdown()


def test_a_stage_leaves_the_same_bytes(scene: Path, engine: OnRay, tmp_path: Path) -> None:
    here, there = (made(scene, tmp_path / kind, one, SCAFFOLD, 96) for kind, one in (("a", InProcess()), ("b", engine)))
    assert any(name.startswith("1-scaffold/depth/") for name in here) and "1-scaffold/surface/surface.npz" in here
    assert differing(here, there) == []


# --- two nodes ----------------------------------------------------------------------------------------------------


def at_work(raylet: int) -> bool:
    """Whether a worker of a node has a job in hand: Ray names the process after it."""
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(status.read_text().rpartition(")")[2].split()[1])
            if parent == raylet and b"ray::_served" in (status.parent / "cmdline").read_bytes():
                return True
        except OSError:  # it has just ended
            continue
    return False


@pytest.mark.slow
def test_a_node_that_dies_in_mid_run_changes_no_byte(scene: Path, tmp_path: Path) -> None:
    """Depth, places, groups and submaps, with one of two nodes gone from the third depth map on."""
    from ray.cluster_utils import Cluster

    alone = made(scene, tmp_path / "processes", Processes(workers=2, threads=1), TRAJECTORY)
    ray.shutdown()
    room = {"num_cpus": 1, "object_store_memory": STORE_BYTES, "include_dashboard": False}
    nodes = Cluster(initialize_head=True, head_node_args=room | {"_system_config": {"worker_niceness": 0}})
    second, killed = nodes.add_node(num_cpus=1, object_store_memory=STORE_BYTES), threading.Event()
    nodes.wait_for_nodes()
    raylet, root = second.all_processes["raylet"][0].process.pid, tmp_path / "cluster"

    def kill_the_second() -> None:
        while len(list(root.glob("1-scaffold/depth/*.npz"))) < 3 or not at_work(raylet):
            time.sleep(0.02)
        nodes.remove_node(second, allow_graceful=False)
        killed.set()

    threading.Thread(target=kill_the_second, daemon=True).start()
    try:
        with_a_node_less = made(scene, root, OnRay(nodes.address), TRAJECTORY)
        assert killed.is_set(), "it died after the run"
        assert sum(node["Alive"] for node in ray.nodes()) == 1
    finally:
        ray.shutdown()
        nodes.shutdown()
    assert any(name.startswith("3-trajectory/") for name in alone) and any("anchors.json" in name for name in alone)
    assert differing(alone, with_a_node_less) == []
