"""The live viewer (viser): splat layers with the patch on and off, clickable cameras, the walk; follows a run."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from skyanchor.errors import BackendError
from skyanchor.gaussians.harmonics import SH_C0
from skyanchor.gaussians.splats import Splats, select
from skyanchor.geometry import cameras, rigid
from skyanchor.photos import read_pixels, resized
from skyanchor.types import Bools, Floats, Floats32, View

AERIAL_COLOUR, GROUND_COLOUR = (21, 101, 192), (229, 57, 53)
THUMBNAIL_PX = 320


@dataclass(frozen=True, eq=False)
class LiveScene:
    """What the viewer shows; any part may be missing while a run goes on."""

    before: Splats | None
    """The aerial set as it was flown."""
    after: Splats | None
    """The updated set: the same aerial rows first, then the ground sequences by owner."""
    changed: Bools
    """(N,), aerial rows that the patch moves or hides."""
    hidden: Bools
    """(N,), aerial rows that the patch hides."""
    aerial: tuple[View, ...]
    ground: tuple[View, ...]
    up: Floats


@dataclass(frozen=True, eq=False)
class Layer:
    """A set of splats that is switched as one."""

    name: str
    splats: Splats
    patched: bool | None
    """True: seen with the patch on; False: with it off; None: always."""
    owner: int = 0


def layers(scene: LiveScene) -> tuple[Layer, ...]:
    """The scene's splats in the parts that are switched apart."""
    if scene.before is None:
        return ()
    if scene.after is None:
        return (Layer("aerial", scene.before, None),)
    count = len(scene.before)
    refined = np.concatenate([scene.changed & ~scene.hidden, np.zeros(len(scene.after) - count, np.bool_)])
    parts = [
        Layer("aerial", select(scene.before, ~scene.changed), None),
        Layer("aerial before the patch", select(scene.before, scene.changed & ~scene.hidden), False),
        Layer("hidden by the patch", select(scene.before, scene.hidden), False),
        Layer("aerial refined", select(scene.after, refined), True),
    ]
    street = select(scene.after, np.arange(count, len(scene.after)))
    for owner in np.unique(street.owner):
        parts.append(Layer(f"ground {owner}", select(street, street.owner == owner), True, int(owner)))
    return tuple(part for part in parts if len(part.splats))


def covariances(splats: Splats) -> Floats32:
    """(N, 3, 3), R diag(σ²) Rᵀ."""
    q = splats.quats / np.linalg.norm(splats.quats, axis=1, keepdims=True)
    w, x, y, z = q.T
    rows = [
        [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
        [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
        [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
    ]
    rotation = np.moveaxis(np.array(rows), 2, 0)
    scaled = rotation * np.exp(splats.log_scales)[:, None, :]
    return np.asarray(scaled @ scaled.transpose(0, 2, 1), np.float32)


class LiveViewer:
    """A viser server that shows one scene at a time."""

    def __init__(self, port: int = 8080) -> None:
        try:
            import viser
        except ImportError as error:
            advice = "the live viewer needs viser: pip install 'skyanchor[view]'"
            raise BackendError(advice) from error
        self.server: Any = viser.ViserServer(port=port, label="SkyAnchor", verbose=False)
        self.patched: Any = self.server.gui.add_checkbox("patch on", True)
        self.cameras: Any = self.server.gui.add_checkbox("cameras", True)
        self.until: Any = self.server.gui.add_slider("sequences up to", min=1, max=1, step=1, initial_value=1)
        self.photo: Any = self.server.gui.add_image(np.full((90, 160, 3), 200, np.uint8), label="click a camera")
        self._splats: list[tuple[Layer, Any]] = []
        self._frusta: list[Any] = []
        for control in (self.patched, self.cameras, self.until):
            control.on_update(lambda _: self._switch())

    def show(self, scene: LiveScene) -> None:
        """Replace what is on screen."""
        self.server.scene.reset()
        self.server.scene.set_up_direction(tuple(float(value) for value in scene.up))
        self._splats = [(layer, self._add(layer)) for layer in layers(scene)]
        self._frusta = [self._camera(view, AERIAL_COLOUR, "aerial", 2.0) for view in scene.aerial]
        self._frusta += [self._camera(view, GROUND_COLOUR, "ground", 0.3) for view in scene.ground]
        self._frusta += self._walk(scene.ground)
        last = max([layer.owner for layer, _ in self._splats], default=1)
        self.until.max = max(1, last)
        self.until.value = max(1, last)
        self._switch()

    def _add(self, layer: Layer) -> Any:
        splats = layer.splats
        colour = np.clip(0.5 + SH_C0 * splats.sh[:, 0], 0.0, 1.0)
        opacity = 1.0 / (1.0 + np.exp(-splats.logit_opacities))
        name = f"/splats/{layer.name}"
        return self.server.scene.add_gaussian_splats(name, splats.means, covariances(splats), colour, opacity[:, None])

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
        frustum.on_click(lambda _: self._open(view))
        return frustum

    def _open(self, view: View) -> None:
        self.photo.label = view.name
        self.photo.image = resized(read_pixels(view.path), THUMBNAIL_PX)

    def _walk(self, ground: tuple[View, ...]) -> list[Any]:
        if len(ground) < 2:
            return []
        centres = rigid.centres_in_world([view.cam_from_world for view in ground])
        segments = np.stack([centres[:-1], centres[1:]], axis=1)
        return [self.server.scene.add_line_segments("/walk", segments, GROUND_COLOUR, thickness=0.05)]

    def _switch(self) -> None:
        for layer, handle in self._splats:
            wanted = layer.patched is None or layer.patched == self.patched.value
            handle.visible = wanted and layer.owner <= self.until.value
        for handle in self._frusta:
            handle.visible = self.cameras.value


def follow(
    viewer: LiveViewer,
    load: Callable[[], LiveScene],
    state: Callable[[], object],
    poll_s: float = 2.0,
    go_on: Callable[[], bool] = lambda: True,
) -> None:
    """Show the scene, and again whenever `state()` differs, until `go_on()` says no."""
    shown: object = None
    while go_on():
        current = state()
        if current != shown:
            viewer.show(load())
            shown = current
        time.sleep(poll_s)
