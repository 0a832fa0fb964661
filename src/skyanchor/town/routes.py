"""Where the cameras are: the survey flight and the walks, and how they are carried on a hard day."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from skyanchor.geometry import cameras, rigid
from skyanchor.town.layout import Layout, way_point
from skyanchor.town.presets import FlightPlan, WalkPlan
from skyanchor.town.weather import CLEAR, Carried, Survey
from skyanchor.types import Camera, Floats, Pose

UP = np.array([0.0, 0.0, 1.0])
TURN_RADIUS = 3.0
"""Metres; corners of a walk are rounded over about this length on either side."""


@dataclass(frozen=True, eq=False)
class Shot:
    """A photo to take."""

    name: str
    cam_from_world: Pose
    """Of the middle row where the shutter rolls."""
    frame: int = 0
    """Number on its walk, before frames went missing or came twice."""
    ends: tuple[Pose, Pose] | None = None
    """cam_from_world of the first and the last row of a rolling shutter."""
    zoom: float = 1.0
    """Focal length over that of the camera."""
    gain: float = 1.0
    """Exposure over that of the sensor."""


def flight_camera(plan: FlightPlan) -> Camera:
    """The survey camera, PINHOLE."""
    return cameras.pinhole(plan.width, plan.height, plan.focal)


def walk_camera(plan: WalkPlan, carried: Carried = CLEAR.carried) -> Camera:
    """The hand-held camera, PINHOLE, or SIMPLE_RADIAL or RADIAL with distortion."""
    plain = cameras.pinhole(plan.width, plan.height, plan.focal)
    return cameras.with_bend(plain, 1.0, carried.k1, carried.k2) if bent(carried) else plain


def bent(carried: Carried) -> bool:
    """Whether the lens distorts the picture."""
    return carried.k1 != 0.0 or carried.k2 != 0.0


def zoomed(camera: Camera, zoom: float) -> Camera:
    """The camera with its focal length times `zoom`."""
    focals = 2 if camera.model == "PINHOLE" else 1
    params = (*(zoom * f for f in camera.params[:focals]), *camera.params[focals:])
    return replace(camera, params=params) if zoom != 1.0 else camera


# --- flight -----------------------------------------------------------------------------------------------------


def flight_shots(plan: FlightPlan, layout: Layout, area: Floats, rng: np.random.Generator) -> list[Shot]:
    """Photos of a five-camera survey of `area` (x0, y0, x1, y1): those whose centre falls near it."""
    heading = float(np.radians(rng.uniform(-12.0, 12.0)))
    east = np.array([np.cos(heading), np.sin(heading)])
    north = np.array([-east[1], east[0]])
    middle, half = (area[:2] + area[2:]) / 2.0, (area[2:] - area[:2]) / 2.0 + plan.margin
    reach = half + plan.altitude
    lines = int(np.ceil(reach[1] / plan.spacing[1]))
    stations = int(np.ceil(reach[0] / plan.spacing[0]))
    shots = []
    for line in range(-lines, lines + 1):
        for station in range(-stations, stations + 1):
            at = middle + east * station * plan.spacing[0] + north * line * plan.spacing[1] + rng.normal(0.0, 0.8, 2)
            level = layout.height(*middle) + plan.altitude + rng.normal(0.0, 0.5)
            for letter, toward in (("n", None), ("f", east), ("b", -east), ("l", north), ("r", -north)):
                pose, target = _aim(np.array([*at, level]), toward, north, plan, layout, rng)
                if np.all(np.abs(target - middle) <= half):
                    shots.append(Shot(f"a{line + lines:02d}{station + stations:02d}{letter}.jpg", pose))
    return shots


def _aim(
    eye: Floats, toward: Floats | None, north: Floats, plan: FlightPlan, layout: Layout, rng: np.random.Generator
) -> tuple[Pose, Floats]:
    """Camera pose and the ground point (2,) at its centre; toward None looks straight down, else 45 degrees."""
    flat = np.zeros(2) if toward is None else toward
    direction = np.array([*flat, -1.0]) + rng.normal(0.0, 0.012, 3)
    direction *= (eye[2] - layout.height(eye[0], eye[1])) / -direction[2]
    upright = np.array([*north, 0.0]) if toward is None else UP
    return rigid.look_at(eye, eye + direction, upright), (eye + direction)[:2]


def surveyed(plan: FlightPlan, survey: Survey) -> FlightPlan:
    """The plan with the altitude, the ground resolution and the overlap of a survey."""
    plan = replace(plan, altitude=plan.altitude + survey.higher_m)
    if survey.ground_cm > 0.0:
        coarser = survey.ground_cm / 100.0 * plan.focal / plan.altitude
        size = (2 * round(plan.width / coarser / 2.0), 2 * round(plan.height / coarser / 2.0))
        plan = replace(plan, width=size[0], height=size[1], focal=plan.focal / coarser)
    if survey.overlap > 0.0:
        seen = np.array([plan.width, plan.height]) / plan.focal * plan.altitude * (1.0 - survey.overlap)
        plan = replace(plan, spacing=(float(seen[0]), float(seen[1])))
    return plan


def flown(shots: list[Shot], survey: Survey) -> list[Shot]:
    """The photos that a survey takes of those planned, with its steps of exposure from line to line."""
    kept = [shot for shot in shots if not survey.nadir or shot.name[5] == "n"]
    darker = 2.0**-survey.exposure_stops
    return [replace(shot, gain=darker if int(shot.name[1:3]) % 2 else 1.0) for shot in kept]


def delivered(shots: list[Shot], survey: Survey, rng: np.random.Generator) -> list[Shot]:
    """The photos with the poses that a survey delivers: off by its errors."""
    if survey.position_cm == 0.0 and survey.angle_deg == 0.0:
        return shots
    moved = []
    for shot in shots:
        centre = rigid.centre_in_world(shot.cam_from_world) + rng.normal(0.0, survey.position_cm / 100.0, 3)
        turn = rigid.rotation_exp(rng.normal(0.0, np.radians(survey.angle_deg), 3))
        moved.append(replace(shot, cam_from_world=rigid.from_centre(turn @ shot.cam_from_world.rotation, centre)))
    return moved


# --- walk -------------------------------------------------------------------------------------------------------


def walk_shots(plan: WalkPlan, layout: Layout, prefix: str, rng: np.random.Generator) -> list[Shot]:
    """Frames along the walk: the hand sways, the head wanders."""
    points, headings = walk_line(plan, layout)
    along = np.linspace(0.0, 1.0, plan.frames) * (plan.frames - 1)
    sway, lift = _wander(along, 0.06, 9.0, rng), _wander(along, 0.03, 6.0, rng)
    yaw = np.radians(_wander(along, 9.0, 38.0, rng) + _wander(along, 1.2, 6.0, rng))
    pitch = np.radians(3.0 + _wander(along, 1.2, 11.0, rng))
    roll = np.radians(_wander(along, 0.9, 8.0, rng))
    shots = []
    for k, (point, heading) in enumerate(zip(points, headings, strict=True)):
        side = np.array([np.sin(heading), -np.cos(heading)])
        x, y = point + side * (plan.side + sway[k])
        eye = np.array([x, y, layout.height(x, y) + plan.eye_height + lift[k]])
        pose = _hand_held(eye, heading + yaw[k], pitch[k], roll[k])
        shots.append(Shot(f"{prefix}_{k:04d}.jpg", pose, k))
    return shots


def carried_plan(plan: WalkPlan, carried: Carried) -> WalkPlan:
    """The plan with the camera that is carried."""
    width, height = (plan.height, plan.width) if carried.portrait else (plan.width, plan.height)
    eye_height = carried.eye_height_m if carried.eye_height_m > 0.0 else plan.eye_height
    return replace(plan, width=width, height=height, focal=plan.focal * carried.wide, eye_height=eye_height)


def carried_shots(shots: list[Shot], carried: Carried, rng: np.random.Generator) -> list[Shot]:
    """The frames as the camera is carried: leaning, shaking, rolling, zoomed, some of them missing or twice."""
    if carried.lean_deg > 0.0 or carried.shake_deg > 0.0:
        shots = _unsteady(shots, carried, rng)
    if carried.readout_ms > 0.0:
        shots = _rolling(shots, carried)
    if carried.zoom != 1.0:
        shots = [replace(shot, zoom=carried.zoom if 2 * k >= len(shots) else 1.0) for k, shot in enumerate(shots)]
    kept = []
    for k, shot in enumerate(shots):
        if k == 0 or rng.random() >= carried.missing:
            kept.append(shot)
            if rng.random() < carried.doubled:
                kept.append(replace(shot, name=shot.name.replace(".jpg", "b.jpg")))
    return kept


def _unsteady(shots: list[Shot], carried: Carried, rng: np.random.Generator) -> list[Shot]:
    along = np.arange(len(shots), dtype=np.float64)
    lean = np.radians(carried.lean_deg) * np.sin(2.0 * np.pi * along / 22.0 + rng.uniform(0.0, 2.0 * np.pi))
    shake = rng.normal(0.0, carried.shake_deg, len(shots))
    moved = []
    for k, shot in enumerate(shots):
        turn = rigid.rotation_exp(np.array([0.0, 0.0, lean[k]])) @ rigid.rotation_exp(
            np.array([np.radians(shake[k]), 0.0, 0.0])
        )
        centre = rigid.centre_in_world(shot.cam_from_world) + np.array([0.0, 0.0, 0.01 * shake[k]])
        moved.append(replace(shot, cam_from_world=rigid.from_centre(turn @ shot.cam_from_world.rotation, centre)))
    return moved


def _rolling(shots: list[Shot], carried: Carried) -> list[Shot]:
    """The frames with the poses of their first and last rows: the camera goes on at its speed while rows are read."""
    poses = [shot.cam_from_world for shot in shots]
    way = carried.readout_ms / 1000.0 * carried.speed_m_s / 2.0
    rolled = []
    for k, shot in enumerate(shots):
        a, b = poses[max(0, k - 1)], poses[min(len(poses) - 1, k + 1)]
        step = rigid.centre_in_world(b) - rigid.centre_in_world(a)
        share = way / float(np.linalg.norm(step))
        turn = rigid.rotation_log(b.rotation @ a.rotation.T) * share
        centre = rigid.centre_in_world(shot.cam_from_world)
        first, last = (
            rigid.from_centre(
                rigid.rotation_exp(sign * turn) @ shot.cam_from_world.rotation, centre + sign * share * step
            )
            for sign in (-1.0, 1.0)
        )
        rolled.append(replace(shot, ends=(first, last)))
    return rolled


def walk_line(plan: WalkPlan, layout: Layout) -> tuple[Floats, Floats]:
    """(N, 2) points evenly along the middle of the way with rounded corners, and (N,) headings, radians."""
    corners = np.array([way_point(layout, *corner) for corner in plan.corners])
    dense = _at_lengths(corners, np.arange(0.0, _length(corners)[-1], 0.1))
    window = max(1, round(TURN_RADIUS / 0.1)) | 1
    padded = np.concatenate(
        [
            dense[0] + (dense[1] - dense[0]) * np.arange(-(window // 2), 0)[:, None],
            dense,
            dense[-1] + (dense[-1] - dense[-2]) * np.arange(1, window // 2 + 1)[:, None],
        ]
    )
    smooth = np.stack([np.convolve(padded[:, k], np.full(window, 1.0 / window), "valid") for k in (0, 1)], axis=1)
    lengths = _length(smooth)
    at = np.linspace(0.0, lengths[-1], plan.frames)
    ahead = np.unwrap(np.arctan2(*np.gradient(smooth, axis=0).T[::-1]))
    return _at_lengths(smooth, at), np.interp(at, lengths, ahead)


def _length(line: Floats) -> Floats:
    return np.concatenate([[0.0], np.cumsum(np.linalg.norm(np.diff(line, axis=0), axis=1))])


def _at_lengths(line: Floats, at: Floats) -> Floats:
    lengths = _length(line)
    return np.stack([np.interp(at, lengths, line[:, k]) for k in (0, 1)], axis=1)


def _wander(frames: Floats, amount: float, period: float, rng: np.random.Generator) -> Floats:
    """A smooth random function of the frame number: three sines around `period` frames, standard deviation `amount`."""
    periods, phases = period * rng.uniform(0.6, 1.6, 3), rng.uniform(0.0, 2.0 * np.pi, 3)
    waves = np.sin(2.0 * np.pi * frames[:, None] / periods + phases)
    return amount * np.sqrt(2.0 / 3.0) * waves.sum(axis=1)


def _hand_held(eye: Floats, yaw: float, pitch: float, roll: float) -> Pose:
    ahead = np.array([np.cos(yaw) * np.cos(pitch), np.sin(yaw) * np.cos(pitch), np.sin(pitch)])
    level = rigid.look_at(eye, eye + ahead, UP)
    return rigid.from_centre(rigid.rotation_exp(np.array([0.0, 0.0, roll])) @ level.rotation, eye)


def covered_area(plans: list[WalkPlan], layout: Layout) -> Floats:
    """(4,): x0, y0, x1, y1 of the box around the walks."""
    points = np.vstack([walk_line(plan, layout)[0] for plan in plans])
    return np.concatenate([points.min(axis=0), points.max(axis=0)])
