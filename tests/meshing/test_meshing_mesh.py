"""The mesh of known surfaces: where it lies, that it has no seams, its colours, its holes, its files."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import trimesh
from ball_world import CENTRE, CONFIG, RADIUS, ball_map, eyes

from skyanchor.meshing import (
    Mesh,
    MeshConfig,
    blocks_near,
    coarser,
    depth_stack,
    joined,
    meshed,
    sampled,
    without_crumbs,
)
from skyanchor.meshing.extraction import Piece
from skyanchor.meshing.field import Samples
from skyanchor.meshing.field_kernels import CORNERS
from skyanchor.meshing.mesh import read_ply, write_glb, write_ply
from skyanchor.types import DepthMap, Floats, Ints, Pose

BESIDE = [ball_map(eye).cam_from_world for eye in eyes()]
"""Cameras that say how sure depths are."""


def pieces_of(maps: list[DepthMap], config: MeshConfig = CONFIG, parts: int = 1) -> list[Piece]:
    blocks = np.unique(np.concatenate([blocks_near(one, config) for one in maps]), axis=0)
    photo = np.full((90, 120, 3), (200, 120, 40), np.uint8)
    stack = depth_stack(maps, [photo] * len(maps), [BESIDE] * len(maps), config)
    return [meshed(sampled(stack, some, config)) for some in np.array_split(blocks, parts)]


@pytest.fixture(scope="module")
def mesh() -> Mesh:
    return joined(pieces_of([ball_map(eye) for eye in eyes()]), CONFIG.voxel_m)


def errors_m(vertices: Floats) -> Floats:
    """Distance to the ball or the wall, whichever is nearer."""
    return np.minimum(np.abs(np.linalg.norm(vertices - CENTRE, axis=1) - RADIUS), np.abs(vertices[:, 1] - 6.0))


def edge_counts(faces: Ints) -> Ints:
    edges = np.sort(faces[:, [0, 1, 1, 2, 2, 0]].reshape(-1, 2), axis=1)
    return np.unique(edges, axis=0, return_counts=True)[1]


def test_the_mesh_lies_on_the_surfaces(mesh: Mesh) -> None:
    errors = errors_m(mesh.vertices)
    assert len(mesh) > 5_000
    assert np.median(errors) < 0.003 and np.percentile(errors, 95) < 0.015
    on_ball = np.abs(np.linalg.norm(mesh.vertices - CENTRE, axis=1) - RADIUS) < 0.02
    assert on_ball.sum() > 1_000 and (np.abs(mesh.vertices[:, 1] - 6.0) < 0.02).sum() > 1_000


def test_noise_is_averaged_over_the_views() -> None:
    """Eight views with 4 cm of noise each: well below it, and not below what eight views can give."""
    maps = [ball_map(eye, 0.04, k) for k, eye in enumerate(eyes())]
    found = joined(pieces_of(maps), CONFIG.voxel_m)
    rms = float(np.sqrt((errors_m(without_crumbs(found, 300).vertices) ** 2).mean()))
    assert 0.005 < rms < 0.03


def test_triangles_look_to_the_free_side(mesh: Mesh) -> None:
    corners = mesh.vertices[mesh.faces]
    normals = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    wall = np.abs(corners[:, :, 1] - 6.0).max(axis=1) < 0.01
    assert (normals[wall, 1] < 0).mean() > 0.99


def test_blocks_meshed_apart_join_without_a_seam(mesh: Mesh) -> None:
    """Inside the surface every edge has two triangles: where seams were open, borders would have one."""
    apart = joined(pieces_of([ball_map(eye) for eye in eyes()], parts=7), CONFIG.voxel_m)
    assert len(apart.vertices) == len(mesh.vertices) and len(apart) == len(mesh)
    np.testing.assert_allclose(apart.vertices, mesh.vertices, atol=1e-6)
    counts = edge_counts(mesh.faces)
    assert counts.max() <= 2
    assert (counts == 1).mean() < 0.06, "only the outline is open"


def test_what_one_view_alone_sees_is_a_hole() -> None:
    alone = joined(pieces_of([ball_map(eyes()[0])]), CONFIG.voxel_m)
    assert len(alone) == 0
    trusting = MeshConfig(least_views=1)
    assert len(joined(pieces_of([ball_map(eyes()[0])], trusting), trusting.voxel_m)) > 1_000


def test_what_one_view_claims_and_others_look_through_is_not_there() -> None:
    """However sure it is: a sheet before the wall that the surest of three views has, and two see the wall behind."""
    few = [ball_map(eye) for eye in eyes()[:3]]
    sheet = np.zeros(few[0].depth.shape, np.bool_)
    sheet[30:60, 5:25] = True
    wrong = replace(few[0], depth=np.where(sheet, few[0].depth - 0.6, few[0].depth).astype(np.float32))
    unsure = [replace(one, confidence=np.full_like(one.confidence, 0.41)) for one in few[1:]]
    found = joined(pieces_of([wrong, *unsure]), CONFIG.voxel_m)
    assert len(found) > 1_000
    assert np.percentile(errors_m(found.vertices), 99) < 0.05


def test_what_most_views_claim_and_some_look_through_is_not_there() -> None:
    """Five of eight have the wall 30 cm too near: the mean over all would be a surface behind what the five claim."""
    maps = [ball_map(eye) for eye in eyes()]
    wrong = [replace(one, depth=one.depth - np.float32(0.3) * (one.normal[..., 1] < -0.999)) for one in maps[:5]]
    off = []
    for share in (0.15, 1.0):
        config = replace(CONFIG, most_through=share)
        found = joined(pieces_of([*wrong, *maps[5:]], config), config.voxel_m).vertices
        above = (np.abs(found[:, 0]) < 1.5) & (found[:, 2] > 2.05)  # the ball: all views look there
        off.append(errors_m(found[above]))
    assert (off[1] > 0.1).sum() > 500
    assert (off[0] > 0.1).sum() < 0.05 * (off[1] > 0.1).sum()
    assert (off[0] < 0.02).sum() > 200, "the wall that three views have stays"


def test_views_that_see_a_surface_move_twice_as_far_weigh_four_times_as_much() -> None:
    one, photo = ball_map(eyes()[0]), np.zeros((90, 120, 3), np.uint8)
    sides = [Pose(np.eye(3), np.array([-x, 0.0, 0.0])) @ one.cam_from_world for x in (0.2, 0.4)]
    narrow, wide = (depth_stack([one], [photo], [[side]], CONFIG).weight[0, 45, 60] for side in sides)
    assert np.isclose(wide / narrow, 4.0, rtol=0.01)


def test_blocks_that_the_surface_passes_only_where_nobody_saw_have_no_mesh() -> None:
    """Free space at one corner and solid at another, but in no cell that is known whole."""
    distance = np.full((1, CORNERS, CORNERS, CORNERS), np.nan, np.float32)
    distance[0, :2, :2, :2], distance[0, 4:6, 4:6, 4:6] = 0.1, -0.1
    found = meshed(Samples(np.zeros((1, 3), np.int64), distance, np.zeros((*distance.shape, 3), np.float32)))
    assert len(found.faces) == 0


def test_depth_beyond_the_crop_takes_no_part() -> None:
    near = MeshConfig(farthest_m=4.5)
    found = joined(pieces_of([ball_map(eye) for eye in eyes()], near), near.voxel_m)
    assert found.vertices[:, 1].max() < 5.0


def test_colours_are_those_of_the_photos(mesh: Mesh) -> None:
    assert (np.abs(mesh.colors.astype(int) - (200, 120, 40)) <= 1).all(axis=1).mean() > 0.999


def test_crumbs_are_left_out(mesh: Mesh) -> None:
    crumb = Mesh(np.eye(3) + 50.0, np.array([[0, 1, 2]]), np.zeros((3, 3), np.uint8))
    both = Mesh(
        np.concatenate([mesh.vertices, crumb.vertices]),
        np.concatenate([mesh.faces, crumb.faces + len(mesh.vertices)]),
        np.concatenate([mesh.colors, crumb.colors]),
    )
    assert without_crumbs(both, 2).vertices.max() < 40.0
    assert len(without_crumbs(both, 1)) == len(mesh) + 1


def test_a_coarser_mesh_lies_where_the_whole_one_does(mesh: Mesh) -> None:
    few = coarser(mesh, 0.1)
    assert 0.05 * len(mesh) < len(few) < 0.15 * len(mesh)
    assert np.percentile(errors_m(few.vertices), 95) < 0.03
    assert few.faces.max() == len(few.vertices) - 1 and len(few.colors) == len(few.vertices)


def test_ply_keeps_map_coordinates_and_colours(mesh: Mesh, tmp_path: Path) -> None:
    offset = np.array([565_000.25, 5_930_000.5, 12.0])
    write_ply(tmp_path / "mesh.ply", mesh, offset)
    held = read_ply(tmp_path / "mesh.ply")
    np.testing.assert_allclose(held.vertices - offset, mesh.vertices, atol=1e-6)
    assert (held.faces == mesh.faces).all() and (held.colors == mesh.colors).all()


def test_glb_is_a_mesh_for_other_programs_with_y_up(mesh: Mesh, tmp_path: Path) -> None:
    write_glb(tmp_path / "mesh.glb", mesh)
    held = trimesh.load_mesh(tmp_path / "mesh.glb")
    assert len(held.faces) == len(mesh)
    np.testing.assert_allclose(held.bounds[:, 1], [mesh.vertices[:, 2].min(), mesh.vertices[:, 2].max()], atol=1e-4)
    np.testing.assert_allclose(held.bounds[0, 2], -mesh.vertices[:, 1].max(), atol=1e-4)
