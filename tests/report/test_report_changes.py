"""Changes and the mesh on the page: marks where they are, pictures of both days, the mesh beside the splats."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import report_run
from PIL import Image
from report_run import paper_street

from skyanchor.changes import ChangeKind
from skyanchor.events import CHANGES, MESH
from skyanchor.geometry import cameras, rigid
from skyanchor.meshing import Mesh
from skyanchor.meshing.mesh import write_ply
from skyanchor.report import drawings
from skyanchor.report.build import build_report
from skyanchor.report.folder import outline, report_inputs
from skyanchor.report.mesh_part import as_discs, mesh_pictures
from skyanchor.report.page import render_page
from skyanchor.report.still import SKY, drawn
from skyanchor.run.folder import RunFolder
from skyanchor.run.records import CHANGES_FILE, MESH_FILE, MESH_RECORD, ChangeRow, ChangesRecord, MeshRecord
from skyanchor.run.results import open_run

WALL = Mesh(
    np.array([[0.0, 4.0, 0.0], [8.0, 4.0, 0.0], [8.0, 4.0, 3.0], [0.0, 4.0, 3.0]]),
    np.array([[0, 1, 2], [0, 2, 3]]), np.full((4, 3), (200, 40, 40), np.uint8),
)  # fmt: skip


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    scene, root = tmp_path_factory.mktemp("paper"), tmp_path_factory.mktemp("runs") / "walk"
    paper_street.write_scene(scene, report_run.FRAMES)
    report_run.begin(scene, root)
    report_run.add_anchors(scene, root, (True, True))
    report_run.add_trajectory(root)
    return root


def add_changes(root: Path, count: int) -> None:
    kinds = (ChangeKind.VANISHED, ChangeKind.APPEARED)
    rows = tuple(
        ChangeRow(
            k + 1, kinds[k], (3.0 + k, 2.0, 0.5), (1.0, 4.0, 1.5), None, 0.9, 5, 6, "a.jpg", "b.jpg" if k == 0 else ""
        )
        for k in range(count)
    )
    with RunFolder(root, redo=True) as run:
        stage = run.stage(CHANGES, "changes", {"count": count}, {})
        stage.save(CHANGES_FILE, ChangesRecord(("/runs/monday",), 0.1, rows))
        for name in ("before/1", "after/1", "before/2")[: 3 * count]:
            path = stage.path(f"{name}.jpg")
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(np.full((40, 60, 3), 90, np.uint8)).save(path)
        stage.finish()


def test_changes_are_on_the_map_and_in_pictures(root: Path) -> None:
    add_changes(root, 2)
    report = build_report(report_inputs(open_run(root), None))
    page = render_page(report)
    axes = drawings.horizontal_axes(report_run.UP)
    np.testing.assert_allclose([report.changes[0].x, report.changes[0].y], axes @ (3.0, 2.0, 0.5))
    assert "<h2>What changed</h2>" in page and "Since monday. 2 changes: 1 appeared, 1 vanished, 0 altered." in page
    assert "change 1: vanished, 4.0 x 1.5 x 1.0 m, confidence 0.90" in page
    assert 'data-layer="changes, vanished"' in page and 'data-layer="changes, altered"' not in page
    shown = page[page.index('id="changes"') : page.index("</section>", page.index('id="changes"'))]
    assert shown.count("<img") == 3 and "after: no photo shows it" in shown


def test_nothing_changed_is_said_and_nobody_looked_is_not(root: Path) -> None:
    add_changes(root, 0)
    report = build_report(report_inputs(open_run(root), None))
    assert "Nothing changed." in render_page(report)
    assert "What changed" not in render_page(replace(report, changed_since=None))


def test_the_mesh_is_beside_the_splats(root: Path) -> None:
    with RunFolder(root) as run:
        stage = run.stage(MESH, "mesh", {}, {})
        write_ply(stage.path(MESH_FILE), WALL, np.zeros(3))
        stage.save(MESH_RECORD, MeshRecord(4, 2, (), 24.0, 0.03, 20.0))
        stage.finish()
    bare = mesh_pictures(open_run(root))
    assert bare is not None and bare.air and bare.street and not bare.splats_air  # there are no splats yet
    report_run.add_scene(root)
    held = mesh_pictures(open_run(root))
    report = build_report(replace(outline(open_run(root)), mesh=held))
    page = render_page(report)
    shown = page[page.index('id="mesh"') : page.index("</section>", page.index('id="mesh"'))]
    assert shown.count("<img") == 4 and "2 triangles, 24 m²" in shown


def test_discs_cover_the_triangles_and_nothing_else() -> None:
    steps = np.arange(0.0, 4.01, 0.1)
    x, z = np.meshgrid(steps, steps, indexing="ij")
    vertices = np.stack([x.ravel(), np.full(x.size, 5.0), z.ravel()], axis=1)
    first = (np.arange(40)[:, None] * 41 + np.arange(40)).ravel()
    faces = np.concatenate([np.stack([first, first + 41, first + 42], 1), np.stack([first, first + 42, first + 1], 1)])
    wall = Mesh(vertices, faces, np.full(vertices.shape, (200, 40, 40), np.uint8))
    eye = np.array([2.0, 0.0, 2.0])
    seen = drawn(
        as_discs(wall),
        cameras.pinhole(60, 60, 40.0),
        rigid.look_at(eye, np.array([2.0, 1.0, 2.0]), np.array([0.0, 0.0, 1.0])),
    )
    assert np.abs(seen[20:40, 20:40].astype(int) - (200, 40, 40)).max() < 12
    assert np.abs(seen[:8].astype(int) - SKY).max() < 3
