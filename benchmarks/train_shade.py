"""XFeat trained on to see through shade: in a picture with shadows laid over it, it finds what it found without them.

    python benchmarks/train_shade.py OUT.npz [--minutes 25] [--towns 500 550] [--seed 0]

Pictures are street and aerial renders of procedural towns, whose seeds no figure is reported on, and collages of
textured polygons. Shadows, sunlit patches, leaf shade and bars are laid over them anew in every step. The published
network looks at the clean picture, its copy at the covered one and learns to say the same; keypoints, reliability and
descriptors stay comparable, so places that the published network described are found by its copy. The weights in
`skyanchor/matching/xfeat_shade.npz` are those of 508 steps, 25 minutes on two busy cores, of an earlier form of this
script with the same settings; those of another machine differ.
"""

from __future__ import annotations

import argparse
import copy
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from skyanchor.geometry import cameras
from skyanchor.matching.xfeat import load_network
from skyanchor.town import MINI, Epoch, make_town, render_colour, routes, sensor
from skyanchor.types import Bytes

HEIGHT, WIDTH, BATCH = 192, 288, 6
RATE = 5e-4
"""Of learning, falls to nothing along a cosine."""
SHARPNESS = 0.07
"""Temperature of the comparison with the other cells of a picture."""
ROWS, COLUMNS = torch.meshgrid(torch.arange(HEIGHT) / WIDTH, torch.arange(WIDTH) / WIDTH, indexing="ij")


# --- pictures -------------------------------------------------------------------------------------------------------


def pictures(seed: int, width: int) -> list[Bytes]:
    """Street and aerial renders of one town, (H, W, 3)."""
    town, rng = make_town(MINI.streets, seed), np.random.default_rng(seed)
    walk = routes.walk_shots(MINI.walk, town.layout, "ground", np.random.default_rng([seed, 12]))
    area = routes.covered_area([MINI.walk], town.layout)
    flight = routes.flight_shots(MINI.flight, town.layout, area, np.random.default_rng([seed, 11]))
    street, high = cameras.scaled(routes.walk_camera(MINI.walk), width), routes.flight_camera(MINI.flight)
    high = cameras.scaled(high, min(800, 4 * width // 3))
    made = []
    for k, shot in enumerate(walk[::4]):
        eye = sensor.handheld_sensor(MINI.walk.gain * rng.uniform(0.8, 1.2), MINI.walk.noise, rng.uniform(-0.1, 0.1))
        light = render_colour(town, street, shot.cam_from_world, (Epoch.GROUND, Epoch.LATER)[k % 2])
        made.append(sensor.develop(light, eye, rng))
    for shot in flight[::7]:
        light = render_colour(town, high, shot.cam_from_world, Epoch.AERIAL)
        made.append(sensor.develop(light, sensor.survey_sensor(MINI.flight.gain, MINI.flight.noise), rng))
    return made


def stacked(some: list[Bytes]) -> list[Tensor]:
    """(N, 3, H, W) for each size of picture."""
    sizes = sorted({one.shape for one in some})
    return [torch.from_numpy(np.stack([one.transpose(2, 0, 1) for one in some if one.shape == size])) for size in sizes]


def uniform(count: int, least: float, most: float, channels: int = 1) -> Tensor:
    """(count, channels, 1, 1)."""
    return torch.empty(count, channels, 1, 1).uniform_(least, most)


def log_uniform(count: int, least: float, most: float) -> Tensor:
    """(count, 1, 1, 1)."""
    return torch.exp(uniform(count, float(np.log(least)), float(np.log(most))))


def crops(stacks: list[Tensor], count: int) -> Tensor:
    """(count, 3, HEIGHT, WIDTH): scaled, turned, mirrored and tinted parts of pictures of one size."""
    stack = stacks[int(torch.multinomial(torch.tensor([float(len(s)) for s in stacks]), 1))]
    _, _, height, width = stack.shape
    tall = log_uniform(count, 0.45, 1.0).flatten()
    wide = (tall * height * WIDTH / HEIGHT / width).clamp(max=1.0)
    turn, side = uniform(count, -0.12, 0.12).flatten(), torch.where(torch.rand(count) < 0.5, -1.0, 1.0)
    warp = torch.zeros(count, 2, 3)
    warp[:, 0, 0], warp[:, 0, 1] = wide * turn.cos() * side, -tall * turn.sin()
    warp[:, 1, 0], warp[:, 1, 1] = wide * turn.sin() * side, tall * turn.cos()
    warp[:, 0, 2] = uniform(count, -1.0, 1.0).flatten() * (1 - wide)
    warp[:, 1, 2] = uniform(count, -1.0, 1.0).flatten() * (1 - tall)
    grid = F.affine_grid(warp, [count, 3, HEIGHT, WIDTH], align_corners=False)
    chosen = stack[torch.randint(len(stack), (count,))].float() / 255.0
    cut = F.grid_sample(chosen, grid, padding_mode="reflection", align_corners=False)
    grey = uniform(count, 0.0, 0.4)
    cut = cut * (1 - grey) + cut.mean(1, keepdim=True) * grey
    tint = torch.exp(uniform(count, -0.12, 0.12, 3)) * torch.exp(uniform(count, -0.3, 0.2))
    return (cut.clamp(min=1e-4) ** torch.exp(uniform(count, -0.35, 0.35)) * tint).clamp(0.0, 1.0)


def collages(count: int) -> Tensor:
    """(count, 3, HEIGHT, WIDTH): textured polygons over each other, the statistics of anything."""
    picture = uniform(count, 0.0, 1.0, 3).expand(count, 3, HEIGHT, WIDTH).clone()
    for _ in range(12):
        inside = polygon(count, 0.05, 0.7, 0.001, 0.003)
        colour = uniform(count, 0.1, 0.9, 3) + uniform(count, 0.0, 0.15) * noise(count, 0.004, 0.06)
        picture = picture * (1 - inside) + inside * colour
    return picture.clamp(0.0, 1.0)


# --- light ----------------------------------------------------------------------------------------------------------


def polygon(count: int, small: float, large: float, sharp: float, soft: float) -> Tensor:
    """(count, 1, HEIGHT, WIDTH), 1 inside of convex polygons; sizes and edges in image widths."""
    radius, stretch = log_uniform(count, small / 2, large / 2), torch.exp(uniform(count, -0.5, 0.5))
    turn = uniform(count, 0.0, 2.0 * np.pi)
    x, y = COLUMNS - uniform(count, -0.1, 1.1), ROWS - uniform(count, -0.05, 0.75)
    u, v = (x * turn.cos() + y * turn.sin()) * stretch, (-x * turn.sin() + y * turn.cos()) / stretch
    inside, sides = torch.full((count, 1, HEIGHT, WIDTH), 9.0), int(torch.randint(3, 8, (1,)))
    for j in range(sides):
        towards = 2.0 * np.pi * (j + uniform(count, -0.35, 0.35)) / sides
        away = radius * uniform(count, 0.6, 1.0) - u * towards.cos() - v * towards.sin()
        inside = torch.minimum(inside, away)
    return torch.sigmoid(2.0 * inside / log_uniform(count, sharp, soft))


def noise(count: int, fine: float, coarse: float) -> Tensor:
    """(count, 1, HEIGHT, WIDTH), smooth, of a size between the two, in image widths."""
    cell = float(log_uniform(1, fine, coarse))
    grid = torch.randn(count, 1, int(HEIGHT / WIDTH / cell) + 3, int(1.0 / cell) + 3)
    return F.interpolate(grid, (HEIGHT, WIDTH), mode="bicubic", align_corners=False)


def leaves(count: int) -> Tensor:
    """(count, 1, HEIGHT, WIDTH), spots everywhere, or inside a polygon."""
    field = noise(count, 0.012, 0.2) + uniform(count, 0.2, 0.8) * noise(count, 0.006, 0.06)
    spots = torch.sigmoid((field - uniform(count, -0.5, 1.2)) * 4.0 / log_uniform(count, 0.05, 0.6))
    return spots * torch.maximum(some(count, 0.4), polygon(count, 0.3, 1.0, 0.005, 0.1))


def bars(count: int) -> Tensor:
    """(count, 1, HEIGHT, WIDTH), the shadow of a fence inside a polygon."""
    turn, period = uniform(count, 0.0, np.pi), log_uniform(count, 0.02, 0.15)
    along = COLUMNS * turn.cos() + ROWS * turn.sin() * uniform(count, 0.7, 1.5)
    wave = torch.sin(2.0 * np.pi * along / period + uniform(count, 0.0, 2.0 * np.pi))
    return torch.sigmoid((wave - uniform(count, -0.6, 0.6)) * 6.0) * polygon(count, 0.2, 0.8, 0.002, 0.02)


def some(count: int, chance: float) -> Tensor:
    """(count, 1, 1, 1), 1 with a chance, else 0."""
    return (torch.rand(count, 1, 1, 1) < chance).float()


def another_light(count: int) -> Tensor:
    """(count, 3, HEIGHT, WIDTH), logarithm of the factor on every pixel; a few pictures keep their light."""
    total = torch.zeros(count, 3, HEIGHT, WIDTH)

    def add(cover: Tensor, chance: float, shade: bool) -> None:
        least, most = (0.22, 0.75) if shade else (1.1, 2.0)
        warm = uniform(count, -0.02, 0.14) * (-1.0 if shade else 1.0)
        tint = torch.cat([warm, uniform(count, -0.02, 0.02), -warm * uniform(count, 0.6, 1.2)], 1)
        total.add_(some(count, chance) * cover * (torch.log(log_uniform(count, least, most)) + tint))

    many = float(torch.rand(1))
    for shade, more in ((True, 12), (False, 8)):
        for _ in range(2 + int(more * many)):
            add(polygon(count, 0.1, 0.8, 0.002, 0.06), 0.5 / (1.0 + 1.5 * many), shade)
        for _ in range(2):
            add(leaves(count), 0.4 if shade else 0.35, shade)
        if torch.rand(1) < 0.3:
            add(polygon(count, 0.03, 0.2, 0.002, 0.01), 0.5, shade)
    add(bars(count), 0.15, True)
    return total.clamp(-1.9, 0.9) * (1.0 - some(count, 0.06))


def covered(clean: Tensor) -> Tensor:
    """The pictures in another light, with noise, in whole steps of a byte."""
    lit = clean * torch.exp(another_light(len(clean))) + torch.randn_like(clean) * uniform(len(clean), 0.0, 0.02)
    return (lit.clamp(0.0, 1.0) * 255.0).round() / 255.0


# --- learning -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Seen:
    """What XFeat makes of pictures, per cell of 8 pixels."""

    features: Tensor
    reliability: Tensor
    keypoints: Tensor
    """Logarithm of the probability of each pixel of a cell, and of none."""


def seen(net: Any, shots: Tensor) -> Seen:
    """As the network's own forward pass, whose normalisation gradients do not go through."""
    grey = shots.mean(1, keepdim=True)
    grey = (grey - grey.mean((2, 3), keepdim=True)) / torch.sqrt(grey.var((2, 3), keepdim=True, unbiased=False) + 1e-5)
    third = net.block3(net.block2(net.block1(grey) + net.skip1(grey)))
    fourth = net.block4(third)
    wide = [F.interpolate(part, third.shape[-2:], mode="bilinear") for part in (fourth, net.block5(fourth))]
    features = net.block_fusion(third + wide[0] + wide[1])
    keypoints = net.keypoint_head(net._unfold2d(grey, 8)).log_softmax(1)
    return Seen(features, net.heatmap_head(features), keypoints)


def likeness(mine: Tensor, wanted: Tensor) -> Tensor:
    """(B, N, N), cosines between the cells of pictures as two networks see them."""
    a, b = (F.normalize(part, dim=1).flatten(2) for part in (mine, wanted))
    return a.transpose(1, 2) @ b


def loss_of(mine: Seen, wanted: Seen) -> Tensor:
    """How far the copy is from the original in descriptors, their order, lengths, reliability and keypoints."""
    weight = wanted.reliability.flatten(1) / wanted.reliability.sum()
    alike = likeness(mine.features, wanted.features)
    own = torch.arange(alike.shape[-1]).expand(len(alike), -1)
    off = ((1.0 - torch.diagonal(alike, dim1=1, dim2=2)) * weight).sum()
    mistaken = sum(
        (F.cross_entropy(way.transpose(1, 2) / SHARPNESS, own, reduction="none") * weight).sum()
        for way in (alike, alike.transpose(1, 2))
    )
    length = (mine.features.norm(dim=1) / wanted.features.norm(dim=1).clamp(min=1e-3) - 1.0).abs().mean()
    doubt = (mine.reliability - wanted.reliability).abs().mean()
    moved = (wanted.keypoints.exp() * (wanted.keypoints - mine.keypoints)).sum(1).mean()
    return 4.0 * off + 0.1 * mistaken + 0.2 * length + doubt + 0.1 * moved


def hits(mine: Seen, wanted: Seen) -> float:
    """Share of reliable cells that are most like themselves."""
    alike = likeness(mine.features, wanted.features)
    own = (alike.argmax(-1) == torch.arange(alike.shape[-1])).float() * wanted.reliability.flatten(1)
    return float(own.sum() / wanted.reliability.sum())


def train(stacks: list[Tensor], minutes: float) -> tuple[Any, Any]:
    """(the published network, its copy after so many minutes)."""
    original = load_network("cpu").requires_grad_(False)
    mine = copy.deepcopy(original).requires_grad_(True)
    mine.fine_matcher.requires_grad_(False)
    weights = [weight for weight in mine.parameters() if weight.requires_grad]
    solver, start, step = torch.optim.Adam(weights, lr=RATE), time.monotonic(), 0
    while (done := (time.monotonic() - start) / (60.0 * minutes)) < 1.0:
        solver.param_groups[0]["lr"] = RATE * min(1.0, (step + 1) / 50) * (0.5 + 0.5 * np.cos(np.pi * done))
        with torch.no_grad():
            odd = step % 2
            clean = torch.cat([crops(stacks, BATCH - 1 + odd), collages(1 - odd)])
            wanted = seen(original, clean)
            shots = covered(clean)
        loss = loss_of(seen(mine, shots), wanted)
        solver.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(weights, 1.0)
        solver.step()
        step += 1
        if step % 50 == 0:
            with torch.no_grad():
                share = [hits(seen(net, shots), wanted) for net in (mine, original)]
            print(f"{step} steps: loss {loss:.3f}, cells found again {share[0]:.2f}, before {share[1]:.2f}", flush=True)
    return original, mine


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--minutes", type=float, default=25.0)
    parser.add_argument("--towns", type=int, nargs=2, default=(500, 550), help="first seed and the one after the last")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    torch.manual_seed(given.seed)
    towns = range(*given.towns)
    made = [one for k, town in enumerate(towns) for one in pictures(town, 480 if 4 * k < len(towns) else 800)]
    print(f"{len(made)} pictures of {len(towns)} towns", flush=True)
    original, mine = train(stacked(made), given.minutes)
    before = original.state_dict()
    learnt = {name: held for name, held in mine.state_dict().items() if not torch.equal(held, before[name])}
    np.savez(given.out, **{name: held.numpy().astype(np.float16) for name, held in learnt.items()})


if __name__ == "__main__":
    main()
