"""From linear light to the photo a camera would store: exposure, colour cast, vignetting, noise, tone curve."""

from __future__ import annotations

from dataclasses import dataclass, replace

import cv2
import numpy as np

from skyanchor.types import Bytes, Floats32

GREY = 0.3
"""Mean light of a street on a clear day."""


@dataclass(frozen=True)
class Sensor:
    """One camera's rendition."""

    gain: float
    """Exposure; 1 maps white in full sun just below clipping."""
    white: tuple[float, float, float]
    """Gains of red, green and blue."""
    vignetting: float
    """Share of light lost in the corners."""
    noise: float
    """Standard deviation at mid grey, share of full scale."""
    contrast: float
    """Exponent of the tone curve over that of a plain 1/2.2."""
    softness: float
    """Standard deviation of the lens blur, pixels."""
    breathing: float
    """Standard deviation of the exposure from photo to photo, share."""
    quality: int
    """Of the JPEG, 1..100."""


def survey_sensor(gain: float, noise: float) -> Sensor:
    """A calibrated mapping camera."""
    return Sensor(gain, (1.0, 1.0, 1.0), 0.08, noise, 1.0, 0.4, 0.01, 95)


def handheld_sensor(gain: float, noise: float, warm: float) -> Sensor:
    """A phone: colour cast `warm` (share of red over blue), stronger vignetting, automatic exposure."""
    return Sensor(gain, (1.0 + 0.5 * warm, 1.0, 1.0 - 0.5 * warm), 0.22, noise, 0.92, 0.45, 0.03, 93)


def metered(sensor: Sensor, light: Floats32) -> Sensor:
    """The sensor after its automatic exposure has seen the light: nearly as bright as on a clear day, and noisier."""
    factor = float(np.clip(GREY / max(1e-6, float(light.mean())), 0.5, 16.0)) ** 0.8
    return replace(sensor, gain=sensor.gain * factor, noise=sensor.noise * max(1.0, factor) ** 0.5)


def develop(light: Floats32, sensor: Sensor, rng: np.random.Generator) -> Bytes:
    """(H, W, 3) RGB; v = (g w (1 - a r²) x + n)^(c / 2.2), noise grows with the square root of the light."""
    h, w = light.shape[:2]
    soft = cv2.GaussianBlur(light, (0, 0), sensor.softness) if sensor.softness > 0.0 else light
    y, x = np.mgrid[0:h, 0:w].astype(np.float32)
    radius2 = ((x - w / 2) ** 2 + (y - h / 2) ** 2) / (w**2 / 4 + h**2 / 4)
    gain = sensor.gain * float(np.exp(rng.normal(0.0, sensor.breathing)))
    exposed = soft * (np.asarray(sensor.white, np.float32) * gain) * (1.0 - sensor.vignetting * radius2)[..., None]
    noise = rng.standard_normal(light.shape, dtype=np.float32) * np.sqrt(np.maximum(exposed, 0.0) + 0.01)
    noisy = np.clip(exposed + 1.6 * sensor.noise * noise, 0.0, None)
    knee = np.where(noisy > 0.8, 0.8 + 0.2 * np.tanh((noisy - 0.8) / 0.2), noisy)  # highlights roll off
    return np.round(255.0 * knee ** (sensor.contrast / 2.2)).astype(np.uint8)
