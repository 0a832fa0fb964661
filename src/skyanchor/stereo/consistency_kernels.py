"""Numba kernels of the consistency pass: neighbours' surfaces drawn into a photo, and the depth most of them share.

A layer is drawn by one thread and pixels are voted on one by one, so the result does not depend on the thread count.
"""
# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

import numba as nb
import numpy as np

from skyanchor.compiled import njit


@njit(cache=True)
def draw(depth, confidence, completed, floor, normal, K, R, t, K_ref, turn, tolerance, z_out, c_out, sample, gap):
    """Draw one neighbour's pixels as small planes into a reference layer; nearest surface wins, then nearest sample.

    R, t are reference_from_neighbour, turn is reference_from_world for the normals. A sample covers the pixels within
    one pixel of it, each at the depth where the pixel's ray meets the sample's plane: z = n . X / n . ray. Filled-in
    depth is left out. `sample` receives which of the neighbour's pixels is seen, `gap` how far from the centre.
    """
    height, width = z_out.shape
    for y in range(depth.shape[0]):
        for x in range(depth.shape[1]):
            z = depth[y, x]
            sure = max(confidence[y, x], floor)
            if z <= 0.0 or completed[y, x] or sure <= 0.0:
                continue
            cx = (x + 0.5 - K[2]) / K[0] * z
            cy = (y + 0.5 - K[3]) / K[1] * z
            X = R[0, 0] * cx + R[0, 1] * cy + R[0, 2] * z + t[0]
            Y = R[1, 0] * cx + R[1, 1] * cy + R[1, 2] * z + t[1]
            Z = R[2, 0] * cx + R[2, 1] * cy + R[2, 2] * z + t[2]
            if Z <= 0.0:
                continue
            u = K_ref[0] * X / Z + K_ref[2]
            v = K_ref[1] * Y / Z + K_ref[3]
            p = normal[y, x, 0]
            q = normal[y, x, 1]
            r = normal[y, x, 2]
            nx = turn[0, 0] * p + turn[0, 1] * q + turn[0, 2] * r
            ny = turn[1, 0] * p + turn[1, 1] * q + turn[1, 2] * r
            nz = turn[2, 0] * p + turn[2, 1] * q + turn[2, 2] * r
            d = nx * X + ny * Y + nz * Z
            if d >= -0.05 * np.sqrt(X * X + Y * Y + Z * Z):  # seen from behind or at grazing angle
                continue
            left = int(np.floor(u - 0.5))
            top = int(np.floor(v - 0.5))
            for row in range(max(top, 0), min(top + 2, height)):
                for col in range(max(left, 0), min(left + 2, width)):
                    rx = (col + 0.5 - K_ref[2]) / K_ref[0]
                    ry = (row + 0.5 - K_ref[3]) / K_ref[1]
                    facing = nx * rx + ny * ry + nz
                    if facing >= 0.0:  # the ray runs along the plane, or meets it behind the eye
                        continue
                    at = d / facing
                    if not abs(at - Z) < 4.0 * tolerance * Z:
                        continue
                    far = (u - col - 0.5) ** 2 + (v - row - 0.5) ** 2
                    before = z_out[row, col]
                    slack = tolerance * Z
                    nearer = before == 0.0 or at < before - slack
                    if nearer or (at < before + slack and far < gap[row, col]):
                        z_out[row, col] = at
                        c_out[row, col] = sure
                        gap[row, col] = far
                        sample[row, col] = y * depth.shape[1] + x


@njit(cache=True, parallel=True)
def vote(z, c, tolerance):
    """The depth most layers share, per pixel: depth, total confidence, count of agreeing layers, layer it started from.

    Layer 0 is the photo's own. support(z) = Σ c_k max(0, 1 - ((z_k - z) / (tolerance z))²); the winner is moved to the
    weighted mean of its supporters twice.
    """
    n, height, width = z.shape
    depth = np.zeros((height, width), np.float32)
    support = np.zeros((height, width), np.float32)
    agreeing = np.zeros((height, width), np.uint8)
    chosen = np.full((height, width), -1, np.int8)
    for y in nb.prange(height):
        for x in range(width):
            best = -1
            best_support = np.float32(0.0)
            for i in range(n):
                zi = z[i, y, x]
                if zi <= 0.0:
                    continue
                inverse = 1.0 / (tolerance * zi)
                total = np.float32(0.0)
                for k in range(n):
                    if z[k, y, x] > 0.0:
                        r = (z[k, y, x] - zi) * inverse
                        total += c[k, y, x] * max(0.0, 1.0 - r * r)
                if total > best_support * np.float32(1.0001):
                    best_support = total
                    best = i
            if best < 0:
                continue
            mean = z[best, y, x]
            inverse = 1.0 / (tolerance * mean)
            for _ in range(2):
                total_w = np.float32(1e-12)
                total_z = np.float32(0.0)
                count = 0
                for k in range(n):
                    if z[k, y, x] > 0.0:
                        r = (z[k, y, x] - mean) * inverse
                        weight = c[k, y, x] * max(0.0, 1.0 - r * r)
                        if weight > 0.0:
                            count += 1
                            total_w += weight
                            total_z += weight * (z[k, y, x] - mean)
                mean += total_z / total_w
                best_support = total_w
                agreeing[y, x] = count
            depth[y, x] = mean
            support[y, x] = best_support
            chosen[y, x] = best
    return depth, support, agreeing, chosen
