"""The plain-torch deformable convolution against ordinary convolutions."""

from __future__ import annotations

import torch
from torch.nn import functional

from skyanchor.matching.deformable import deform_conv2d


def test_no_offset_is_an_ordinary_convolution():
    torch.manual_seed(0)
    image, weight, bias = torch.rand(2, 3, 9, 11), torch.rand(5, 3, 3, 3), torch.rand(5)
    found = deform_conv2d(image, torch.zeros(2, 18, 9, 11), weight, bias, padding=(1, 1))
    assert torch.allclose(found, functional.conv2d(image, weight, bias, padding=1), atol=1e-5)


def test_whole_pixel_offset_reads_the_shifted_image():
    torch.manual_seed(1)
    image, weight = torch.rand(1, 2, 12, 12), torch.rand(4, 2, 3, 3)
    offset = torch.zeros(1, 9, 2, 12, 12)
    offset[:, :, 0], offset[:, :, 1] = 2.0, -1.0  # two rows down, one column left
    found = deform_conv2d(image, offset.view(1, 18, 12, 12), weight, padding=1)
    plain = functional.conv2d(image, weight, padding=1)
    assert torch.allclose(found[..., 2:8, 3:9], plain[..., 4:10, 2:8], atol=1e-5)


def test_mask_weighs_the_samples():
    torch.manual_seed(2)
    image, weight = torch.rand(1, 2, 6, 6), torch.rand(1, 2, 3, 3)
    offset, half = torch.zeros(1, 18, 6, 6), torch.full((1, 9, 6, 6), 0.5)
    full = deform_conv2d(image, offset, weight, padding=1)
    assert torch.allclose(deform_conv2d(image, offset, weight, padding=1, mask=half), 0.5 * full, atol=1e-6)


def brute_force(image, offset, weight, mask):
    """y(p) = Σ_c Σ_k w_ck m_k(p) x_c(p + k + Δ_k(p)), one number at a time."""
    _, channels, height, width = image.shape
    out = torch.zeros(weight.shape[0], height, width)

    def value(c: int, row: int, column: int) -> float:
        return float(image[0, c, row, column]) if 0 <= row < height and 0 <= column < width else 0.0

    for row in range(height):
        for column in range(width):
            for k in range(9):
                y = row - 1 + k // 3 + float(offset[0, 2 * k, row, column])
                x = column - 1 + k % 3 + float(offset[0, 2 * k + 1, row, column])
                top, left = int(torch.tensor(y).floor()), int(torch.tensor(x).floor())
                for c in range(channels):
                    seen = sum(
                        (1 - abs(y - r)) * (1 - abs(x - s)) * value(c, r, s)
                        for r in (top, top + 1)
                        for s in (left, left + 1)
                    )
                    out[:, row, column] += weight[:, c, k // 3, k % 3] * seen * float(mask[0, k, row, column])
    return out[None]


def test_any_offset_equals_a_loop_over_numbers():
    torch.manual_seed(3)
    image, weight, mask = torch.rand(1, 2, 5, 6), torch.rand(3, 2, 3, 3), torch.rand(1, 9, 5, 6)
    offset = 3.0 * torch.randn(1, 18, 5, 6)  # many samples leave the image, some by a part of a pixel
    found = deform_conv2d(image, offset, weight, padding=1, mask=mask)
    assert torch.allclose(found, brute_force(image, offset, weight, mask), atol=1e-4)
