"""The visibility graph against brute force, and against what a survey's geometry demands."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from survey_fixture import make_survey, write_survey

from skyanchor.geometry import planes, rigid
from skyanchor.scaffold import load_scaffold, visibility_graph
from skyanchor.scaffold.visibility import (
    Footprints,
    Grid,
    VisibilityConfig,
    footprints,
    frustum_outline,
    overlap_graph,
)
from skyanchor.types import Scaffold, Tracks, VisibilityGraph


def brute_force(drawn: Footprints, n_vis: int) -> list[list[tuple[int, float]]]:
    """Every pair by sets; best first, ties by index."""
    sets = [set(drawn.cells[a:b].tolist()) for a, b in zip(drawn.start[:-1], drawn.start[1:], strict=True)]
    rows = []
    for a, mine in enumerate(sets):
        pairs = [(b, len(mine & other) / len(mine | other)) for b, other in enumerate(sets) if b != a and mine & other]
        rows.append(sorted(pairs, key=lambda pair: (-pair[1], pair[0]))[:n_vis])
    return rows


def as_rows(graph: VisibilityGraph) -> list[list[tuple[int, float]]]:
    return [
        list(zip(n.tolist(), w.tolist(), strict=True)) for n, w in zip(graph.neighbours, graph.weights, strict=True)
    ]


def random_footprints(seed: int, views: int = 60) -> Footprints:
    rng = np.random.default_rng(seed)
    grid = Grid(np.eye(3)[:2], np.zeros(2), 1.0, 40, 40)
    pieces = []
    for k in range(views):
        x, y = rng.integers(0, 30, 2)
        block = (np.arange(y, y + 8)[:, None] * 40 + np.arange(x, x + 8)).ravel()
        pieces.append(np.zeros(0, np.int64) if k == 7 else rng.permutation(block)[: rng.integers(20, 64)])
    start = np.concatenate([[0], np.cumsum([len(p) for p in pieces])])
    return Footprints(grid, start, np.concatenate(pieces).astype(np.int32))


@pytest.mark.parametrize("seed", range(3))
def test_inverted_index_equals_brute_force(seed: int) -> None:
    drawn = random_footprints(seed)
    graph = overlap_graph(drawn, 16)
    assert as_rows(graph) == brute_force(drawn, 16)
    assert len(graph.neighbours[7]) == 0  # a view that sees nothing has no neighbour


@pytest.fixture(scope="module")
def scaffold(tmp_path_factory: pytest.TempPathFactory) -> Scaffold:
    return load_scaffold(write_survey(tmp_path_factory.mktemp("survey"), make_survey()))


def untracked(scaffold: Scaffold) -> Scaffold:
    nothing = np.zeros(0, np.int64)
    return replace(scaffold, tracks=Tracks(nothing, nothing, np.zeros((0, 2))))


def test_survey_graph_equals_brute_force_with_and_without_tracks(scaffold: Scaffold) -> None:
    for case in (scaffold, untracked(scaffold)):
        config = VisibilityConfig(n_vis=9)
        drawn = footprints(case, config)
        assert len(np.unique(drawn.cells)) > 50
        assert as_rows(visibility_graph(case, config)) == brute_force(drawn, 9)


def test_neighbours_look_at_the_same_ground(scaffold: Scaffold) -> None:
    """A view's best neighbours aim nearer to it than views do on average; no view is its own neighbour."""
    aims = []
    for view in scaffold.views:
        outline = frustum_outline(view, scaffold.ground, planes.basis(scaffold.ground.normal), 4.0)
        aims.append(outline.mean(axis=0))
    aim = np.array(aims)
    graph = visibility_graph(scaffold)
    near = [np.linalg.norm(aim[n[:3]] - aim[k], axis=1).mean() for k, n in enumerate(graph.neighbours)]
    usual = np.linalg.norm(aim[:, None] - aim, axis=2).mean()
    assert np.mean(near) < 0.45 * usual
    for k, (neighbours, weights) in enumerate(zip(graph.neighbours, graph.weights, strict=True)):
        assert k not in neighbours and len(neighbours) <= 16
        assert np.all(np.diff(weights) <= 0) and np.all((weights > 0) & (weights <= 1))


def test_frusta_agree_with_tracks(scaffold: Scaffold) -> None:
    """On flat land frustum footprints choose largely the neighbours that the observed points choose."""
    by_points, by_frusta = visibility_graph(scaffold), visibility_graph(untracked(scaffold))
    shared = [len(set(a[:6]) & set(b[:6])) for a, b in zip(by_points.neighbours, by_frusta.neighbours, strict=True)]
    assert np.mean(shared) > 3.0


def test_frustum_of_a_nadir_view_is_its_rectangle_on_the_ground(scaffold: Scaffold) -> None:
    view = next(v for v in scaffold.views if v.name == "s5_n.jpg")
    outline = frustum_outline(view, scaffold.ground, planes.basis(scaffold.ground.normal), 4.0)
    centre = rigid.centre_in_world(view.cam_from_world)
    height = float(planes.heights(scaffold.ground, centre))
    size = np.ptp(outline, axis=0)
    assert sorted(size) == pytest.approx(sorted([height * 64 / 55, height * 48 / 55]), rel=0.02)
    assert np.allclose(outline.mean(axis=0), centre[:2], atol=1.0)


def test_a_view_to_the_horizon_ends_at_its_reach(scaffold: Scaffold) -> None:
    eye = np.array([0.0, 0.0, scaffold.ground.offset + 10.0])
    level = replace(
        scaffold.views[0], cam_from_world=rigid.look_at(eye, eye + np.array([1.0, 0, -0.05]), np.array([0, 0, 1.0]))
    )
    outline = frustum_outline(level, scaffold.ground, planes.basis(scaffold.ground.normal), 4.0)
    distance = np.linalg.norm(outline, axis=1)
    assert distance.max() == pytest.approx(40.0) and np.isfinite(outline).all()


def test_strays_do_not_change_the_graph(scaffold: Scaffold) -> None:
    points = scaffold.points.copy()
    points[::300] += [5000.0, 0.0, -2000.0]
    graph = visibility_graph(replace(scaffold, points=points))
    usual = visibility_graph(scaffold)
    same = [len(set(a[:5]) & set(b[:5])) for a, b in zip(graph.neighbours, usual.neighbours, strict=True)]
    assert np.mean(same) > 4.0


def test_shared_scenes_have_neighbours_everywhere() -> None:
    root = Path(__file__).parents[3] / "shared" / "scenes" / "mini" / "aerial"
    if not root.is_dir():
        pytest.skip("the scene is not here")
    scaffold = load_scaffold(root)
    graph = visibility_graph(scaffold)
    assert min(len(n) for n in graph.neighbours) >= 4
    assert planes.angle_deg(scaffold.up, np.array([0, 0, 1.0])) < 1.0
    assert scaffold.ground.offset == pytest.approx(-9.4, abs=0.2)
