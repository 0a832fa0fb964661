"""The live viewer (viser): splat layers with the patch on and off, cameras to fly to, the walk; follows a run."""

from __future__ import annotations

import errno
import logging
import socket
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from skyanchor.errors import BackendError, SkyAnchorError
from skyanchor.gaussians.harmonics import SH_C0
from skyanchor.gaussians.splats import concat
from skyanchor.geometry import cameras, rigid
from skyanchor.photos import load_photo
from skyanchor.report.live_scene import Kind, Layer, LiveScene, covariances, is_visible, layers
from skyanchor.report.still import beside_photo
from skyanchor.types import Floats, Pose, View

log = logging.getLogger(__name__)

AERIAL_COLOUR, GROUND_COLOUR, HIDDEN_COLOUR = (21, 101, 192), (229, 57, 53), (0.9, 0.1, 0.1)
LOOPBACK = "127.0.0.1"
THUMBNAIL_PX = 480
FLIGHT_STEPS, FLIGHT_S = 24, 0.8
"""To a camera that was clicked."""
MOST_CAMERAS = 500
"""Frusta of one kind: a browser gets slow beyond that."""
MOST_GAP = 10
"""Frames farther apart in the sequence are not joined by a line: nothing is known of the way between them."""


def refuse_address(host: str, port: int) -> None:
    """SkyAnchorError where nothing can listen at an address; a port that is taken is another matter."""
    try:
        family, kind, _, _, place = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(place)
    except (OSError, UnicodeError) as error:
        if getattr(error, "errno", None) == errno.EADDRINUSE:
            return
        problem = f"nothing can listen at {host}, port {port} ({getattr(error, 'strerror', None) or error})"
        raise SkyAnchorError(f"{problem}. Give --host 127.0.0.1 or 0.0.0.0, and --port above 1023.") from error


class LiveViewer:
    """A viser server that shows one scene at a time."""

    def __init__(self, port: int = 8080, host: str = LOOPBACK) -> None:
        """`host` is the address that it listens at: this machine alone, or 0.0.0.0 for whoever reaches it."""
        try:
            import viser
        except ImportError as error:
            advice = "the live viewer needs viser: pip install 'skyanchor[view]'"
            raise BackendError(advice) from error
        refuse_address(host, port)
        self.server: Any = viser.ViserServer(host=host, port=port, label="SkyAnchor", verbose=False)
        gui = self.server.gui
        self.status: Any = gui.add_markdown("waiting for the run")
        self.patched: Any = gui.add_checkbox("patch on", True, hint="off: the aerial model as it was")
        self.kinds: dict[Kind, Any] = {
            Kind.AERIAL: gui.add_checkbox("aerial Gaussians", True),
            Kind.GROUND: gui.add_checkbox("ground Gaussians", True),
            Kind.HIDDEN: gui.add_checkbox("hidden Gaussians", False, hint="what the patch hides, in red"),
        }
        self.cameras: Any = gui.add_checkbox("cameras and walk", True)
        self.until: Any = gui.add_slider("sequences up to", min=1, max=2, step=1, initial_value=1, visible=False)
        blank = np.full((90, 160, 3), 200, np.uint8)
        self.photo: Any = gui.add_image(blank, label="click a camera to fly there and see its photo")
        self.render: Any = gui.add_image(blank, label="what the splats show there", visible=False)
        self._names: tuple[str, ...] = ()
        self._splats: list[tuple[Layer, Any]] = []
        self._marks: list[Any] = []
        self._placed = False
        for control in (self.patched, self.cameras, self.until, *self.kinds.values()):
            control.on_update(lambda _: self._switch())

    @property
    def newest(self) -> int:
        """Number of the newest sequence in the splats."""
        return max([layer.owner for layer, _ in self._splats], default=0)

    def show(self, scene: LiveScene) -> None:
        """Replace what is on screen; switches and the visitor's viewpoint stay."""
        self.server.scene.reset()
        self._place(scene)
        self._splats = [(layer, self._add(layer)) for layer in layers(scene)]
        if scene.before is None and scene.points is not None:
            self._points(scene)
        self._marks = [self._camera(view, AERIAL_COLOUR, "aerial", 2.0) for view in _some(scene.aerial)]
        self._marks += [self._camera(view, GROUND_COLOUR, "ground", 0.3) for view in _some(scene.ground)]
        self._marks += self._walk(scene.ground)
        self._sequences(scene)
        self._switch()

    def say(self, text: str) -> None:
        """Replace the line that tells how far the run is."""
        if self.status.content != text:
            self.status.content = text

    def _place(self, scene: LiveScene) -> None:
        """Up, and the first viewpoint: above the walk, or the aerial cameras before there is one."""
        if self._placed and not scene.ground:
            return
        self._placed = True
        self.server.scene.set_up_direction(tuple(float(value) for value in scene.up))
        position, target = first_viewpoint(scene)
        self.server.initial_camera.position = tuple(float(value) for value in position)
        self.server.initial_camera.look_at = tuple(float(value) for value in target)

    def _sequences(self, scene: LiveScene) -> None:
        known, self._names = self._names, scene.sequences
        self.until.visible = self.newest > 1
        if known != scene.sequences or self.until.max != max(2, self.newest):
            self.until.max = max(2, self.newest)
            self.until.value = max(1, self.newest)

    def _add(self, layer: Layer) -> Any:
        splats = layer.splats
        colour = np.clip(0.5 + SH_C0 * splats.sh[:, 0], 0.0, 1.0)
        if layer.kind is Kind.HIDDEN:
            colour = np.broadcast_to(np.array(HIDDEN_COLOUR, np.float32), colour.shape)
        opacity = 1.0 / (1.0 + np.exp(-splats.logit_opacities))
        name = f"/splats/{layer.name}"
        return self.server.scene.add_gaussian_splats(name, splats.means, covariances(splats), colour, opacity[:, None])

    def _points(self, scene: LiveScene) -> None:
        self.server.scene.add_point_cloud("/points", scene.points, scene.point_colors, point_size=0.12)

    def _camera(self, view: View, colour: tuple[int, int, int], kind: str, size: float) -> Any:
        k = cameras.calibration(view.camera)
        frustum = self.server.scene.add_camera_frustum(
            f"/cameras/{kind}/{view.name}",
            fov=float(2.0 * np.arctan(view.camera.height / (2.0 * k[1, 1]))),
            aspect=view.camera.width / view.camera.height,
            scale=size,
            color=colour,
            wxyz=rigid.quaternion_from_rotation(view.cam_from_world.rotation.T),
            position=rigid.centre_in_world(view.cam_from_world),
        )
        frustum.on_click(lambda event: self._visit(event.client, view))
        return frustum

    def _visit(self, client: Any, view: View) -> None:
        """Fly a visitor to a camera, and show everyone its photo beside what the splats show from there."""
        self._open(view)
        for pose in flight(Pose(*_seen_from(client.camera)), view.cam_from_world, FLIGHT_STEPS):
            with client.atomic():
                client.camera.position = rigid.centre_in_world(pose)
                client.camera.wxyz = rigid.quaternion_from_rotation(pose.rotation.T)
            time.sleep(FLIGHT_S / FLIGHT_STEPS)
        self._draw(view)

    def _open(self, view: View) -> None:
        self.render.visible = False
        if not view.path.is_file():
            self.photo.label = f"{view.name}: the photo is not there any more"
            return
        self.photo.label = view.name
        photo, _ = load_photo(view.name, view.path, view.camera, THUMBNAIL_PX)
        self.photo.image = photo.pixels

    def _draw(self, view: View) -> None:
        """The splats that are switched on, as the camera sees them."""
        seen = [layer.splats for layer, handle in self._splats if handle.visible]
        if seen:
            self.render.image = beside_photo(concat(seen), view, THUMBNAIL_PX)
            self.render.visible = True

    def _walk(self, ground: tuple[View, ...]) -> list[Any]:
        near = np.diff([view.image_id for view in ground]) <= MOST_GAP
        if not near.any():
            return []
        centres = rigid.centres_in_world([view.cam_from_world for view in ground])
        segments = np.stack([centres[:-1], centres[1:]], axis=1)[near]
        return [self.server.scene.add_line_segments("/walk", segments, GROUND_COLOUR, thickness=0.05)]

    def _switch(self) -> None:
        newest = self.newest
        until = self.until.value if newest > 1 else newest
        on = frozenset(kind for kind, box in self.kinds.items() if box.value)
        for layer, handle in self._splats:
            handle.visible = is_visible(layer, on, self.patched.value, until, newest)
        for handle in self._marks:
            handle.visible = self.cameras.value
        if 0 < until <= len(self._names):
            self.until.label = f"up to {self._names[until - 1]}"


def _seen_from(camera: Any) -> tuple[Floats, Floats]:
    """Rotation and translation of cam_from_world of a visitor's camera."""
    rotation = rigid.rotation_from_quaternion(np.asarray(camera.wxyz, np.float64)).T
    return rotation, -rotation @ np.asarray(camera.position, np.float64)


def flight(start: Pose, end: Pose, steps: int) -> list[Pose]:
    """cam_from_world on the way from one pose to the other, the last one there: straight on and turning evenly."""
    a, b = rigid.centre_in_world(start), rigid.centre_in_world(end)
    turn = rigid.rotation_log(end.rotation @ start.rotation.T)
    shares = [0.5 - 0.5 * np.cos(np.pi * k / steps) for k in range(1, steps + 1)]
    return [rigid.from_centre(rigid.rotation_exp(s * turn) @ start.rotation, a + s * (b - a)) for s in shares]


def first_viewpoint(scene: LiveScene) -> tuple[Floats, Floats]:
    """(position, target) from above and aside."""
    seen = scene.ground or scene.aerial
    if not seen:
        return 30.0 * scene.up + np.array([0.0, -30.0, 0.0]), np.zeros(3)
    centres = rigid.centres_in_world([view.cam_from_world for view in seen])
    middle = centres.mean(axis=0)
    reach = max(15.0, float(np.linalg.norm(centres - middle, axis=1).max()))
    aside = np.array([0.0, -1.0, 0.0]) if abs(scene.up[1]) < 0.9 else np.array([1.0, 0.0, 0.0])
    aside -= scene.up * (scene.up @ aside)
    return middle + reach * (scene.up + aside / np.linalg.norm(aside)), middle


def _some(views: tuple[View, ...]) -> tuple[View, ...]:
    """At most MOST_CAMERAS of them, evenly chosen."""
    return views[:: -(-len(views) // MOST_CAMERAS)] if views else ()


def follow(
    viewer: LiveViewer,
    load: Callable[[], LiveScene],
    state: Callable[[], object],
    status: Callable[[], str] = str,
    poll_s: float = 2.0,
    go_on: Callable[[], bool] = lambda: True,
) -> None:
    """Show the scene, and again whenever `state()` differs, until `go_on()` says no.

    A run removes its progress when a stage ends, perhaps while it is being read: then the next look shows the result.
    """
    shown: object = None
    while go_on():
        current = state()
        if current != shown:
            try:
                viewer.show(load())
                shown = current
            except (SkyAnchorError, OSError) as error:
                if shown is None:
                    raise
                log.warning("the run is not readable just now: %s", error)
        viewer.say(status())
        time.sleep(poll_s)
