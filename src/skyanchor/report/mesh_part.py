"""The street's mesh as the page shows it: pictures of it beside the same views of the splats."""

from __future__ import annotations

import numpy as np

from skyanchor.events import MESH
from skyanchor.gaussians.seeding import splats_from_cloud
from skyanchor.gaussians.splats import Splats
from skyanchor.geometry import cameras, rigid
from skyanchor.meshing.mesh import Mesh, corners
from skyanchor.report import drawings
from skyanchor.report.content import MeshPictures, Report
from skyanchor.report.markup import Markup, element
from skyanchor.report.still import drawn, from_the_air
from skyanchor.run.results import Run
from skyanchor.types import Cloud, Floats

WIDTH = 640
"""Of a picture from the street, pixels."""
OPACITY = 0.95


def mesh_pictures(run: Run) -> MeshPictures | None:
    """The mesh from the air and from the middle of the walk, and the splats where there are any; None without one."""
    if not run.has(MESH) or not run.poses:
        return None
    poses, up = list(run.poses.values()), run.scaffold.up
    places, middle = rigid.centres_in_world(poses), poses[len(poses) // 2]
    camera = cameras.undistorted(cameras.scaled(run.camera, min(WIDTH, run.camera.width)))
    sets = [as_discs(run.mesh), *([run.splats()] if run.base is not None else [])]
    pictures = [[from_the_air(one, places, up), drawn(one, camera, middle)] for one in sets]
    uris = [tuple(drawings.data_uri(picture) for picture in some) for some in pictures]
    record = run.mesh_record
    return MeshPictures(record.faces, record.area_m2, *uris[0], *(uris[1] if len(uris) > 1 else ("", "")))


def as_discs(mesh: Mesh) -> Splats:
    """A disc for every triangle, in its plane and colour, as large as the triangle: what the rasteriser can draw."""
    points = corners(mesh)
    across = np.cross(points[:, 1] - points[:, 0], points[:, 2] - points[:, 0])
    twice = np.linalg.norm(across, axis=1)
    normals: Floats = across / np.maximum(twice, 1e-12)[:, None]
    colors = mesh.colors[mesh.faces].astype(np.float64).mean(axis=1).round().astype(np.uint8)
    middle, spacing = points.mean(axis=1), np.sqrt(twice / 2.0)
    cloud = Cloud(middle.astype(np.float32), normals.astype(np.float32), colors, spacing.astype(np.float32))
    return splats_from_cloud(cloud, sh_degree=0, opacity=OPACITY, flatness=0.1)


def mesh_section(report: Report) -> Markup | None:
    """The mesh beside the splats, from the air and from the street."""
    held = report.mesh
    if held is None:
        return None
    note = (
        f"{held.faces:,} triangles, {held.area_m2:,.0f} m²; holes are where too few views looked. 5-mesh has the files."
    )
    rows = (
        ("from the air", held.air, held.splats_air),
        ("from the middle of the walk", held.street, held.splats_street),
    )
    figures = [
        element("figure", element("img", src=uri, alt=f"{what}, {where}"), element("figcaption", f"{what}, {where}"))
        for where, mesh, splats in rows
        for what, uri in (("the mesh", mesh), ("the splats", splats))
        if uri
    ]
    body = element("div", figures, class_="four")
    return element("section", element("h2", "The street as a mesh"), element("p", note, class_="note"), body, id="mesh")
