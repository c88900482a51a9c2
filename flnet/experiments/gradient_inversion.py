"""Gradient inversion: images from the update of one step of training, for a network whose first layer is dense.

Whoever knows the model before the step and the learning rate knows the gradient. Three attacks use it:

- The gradient of a dense first layer is a sum of outer products, image times error, and that of its biases the sum of
  the errors. Of one image it gives the image itself (L. T. Phong et al., "Privacy-Preserving Deep Learning via
  Additively Homomorphic Encryption", 2018, section 3).
- The gradient of the output biases is the mean of (probability - label), which tells how often each label occurs (B.
  Zhao et al., "iDLG", 2020, for one image; several as W. Wainakh et al., "User-Level Label Leakage from Gradients in
  Federated Learning", 2022).
- Images are looked for whose gradient is the one that was seen (L. Zhu et al., "Deep Leakage from Gradients", NeurIPS
  2019), by L-BFGS with derivatives worked out by hand. Pixels stay in their range.

Images are rows (n, d) in [0, 1].
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from flnet.errors import NotOffered
from flnet.experiments.sigmoid_network import (
    NAMES,
    Model,
    Numbers,
    RowErrors,
    forward,
    gradient_of,
    row_errors,
)
from flnet.installing import install

STEPS = 300  # of L-BFGS
DARK = 0.3  # up to which the pixels go with which the search begins
MOST_PSNR = 100.0  # decibels: the same image
SSIM_DEVIATION = 1.5  # pixels, of the window in which images are compared
SSIM_CONSTANTS = (0.01**2, 0.03**2)  # for pixels in [0, 1]


def image_in_closed_form(seen: Model) -> Numbers:
    """The image behind the gradient of one image, (d,): the first layer's gradient over that of its biases.

    Each hidden neuron gives the image by itself; the least squares weigh them by their errors. Where there is more
    than one image or noise, a mixture comes out. Nothing is cut to the range of pixels.
    """
    errors = seen["hidden.bias"]
    square = float(errors @ errors)
    return np.asarray(seen["hidden.weight"] @ errors / square) if square else np.zeros(len(seen["hidden.weight"]))


def guess_labels(model: Model, seen: Model, count: int, images: Numbers) -> NDArray[np.int64]:
    """The labels of a batch, in rising order, (count,).

    Args:
        seen: the mean gradient of the batch.
        images: some like those of the batch, (m, d), to know what the model says of such; random ones will do.
    """
    expected = forward(model, images).probabilities.mean(axis=0)
    shares = np.maximum(expected - seen["output.bias"], 1e-12)  # noise can make them anything
    shares *= count / shares.sum()
    found = np.floor(shares).astype(np.int64)
    found[np.argsort(found - shares)[: count - int(found.sum())]] += 1
    return np.repeat(np.arange(len(found)), found)


class GradientMatch(NamedTuple):
    """Half the squared distance of two gradients, and its derivative by the images, (n, d)."""

    distance: float
    slope: Numbers


def gradient_match(model: Model, images: Numbers, targets: Numbers, seen: Mapping[str, Numbers]) -> GradientMatch:
    """How far the mean gradient of these images is from the one that was seen.

    Args:
        targets: (n, k) probabilities of the classes as labels.
    """
    count, hidden_weight, output_weight = len(images), model["hidden.weight"], model["output.weight"]
    outputs = forward(model, images)
    h, p = outputs
    rising = h * (1 - h)  # derivative of the sigmoid
    # Mean: the errors of the summed loss over the number of images.
    errors = row_errors(model, outputs, targets)
    back, error = errors.hidden / count, errors.output / count
    own = gradient_of(images, h, RowErrors(back, error))
    rest = {name: own[name] - seen[name] for name in NAMES}
    distance = 0.5 * sum(float(np.vdot(array, array)) for array in rest.values())
    # Backwards through the gradient itself: first to the errors of both layers, then to what they come from.
    by_back = images @ rest["hidden.weight"] + rest["hidden.bias"]
    by_error = (by_back * rising) @ output_weight + h @ rest["output.weight"] + rest["output.bias"]
    by_scores = p * (by_error - (p * by_error).sum(axis=1, keepdims=True)) / count
    by_hidden = error @ rest["output.weight"].T + by_scores @ output_weight.T
    by_inputs = by_hidden * rising + by_back * (error @ output_weight.T) * rising * (1 - 2 * h)
    return GradientMatch(distance, back @ rest["hidden.weight"].T + by_inputs @ hidden_weight.T)


def search_images(
    model: Model, seen: Model, labels: NDArray[np.integer], chance: np.random.Generator, steps: int = STEPS
) -> Numbers:
    """Images whose mean gradient is the one that was seen, (n, d), as far as they are found.

    Args:
        seen: the mean gradient of as many images as there are labels.

    Raises:
        NotOffered: SciPy is not installed.
    """
    targets = np.eye(len(model["output.bias"]))[labels]
    start = chance.uniform(0, DARK, (len(labels), len(model["hidden.weight"])))
    factor = 1 / max(sum(float(np.vdot(array, array)) for array in seen.values()), np.finfo(float).tiny)

    def distance(flat: Numbers) -> tuple[float, Numbers]:
        found = gradient_match(model, flat.reshape(start.shape), targets, seen)
        return factor * found.distance, factor * found.slope.ravel()

    done = scipy_part("optimize").minimize(
        distance,
        start.ravel(),
        jac=True,
        method="L-BFGS-B",
        bounds=[(0.0, 1.0)] * start.size,
        options={"maxiter": steps, "maxfun": 2 * steps, "maxcor": 30, "ftol": 1e-15, "gtol": 1e-12},
    )
    return np.asarray(done.x).reshape(start.shape)


class Likeness(NamedTuple):
    """How alike images and guesses are: means over the images.

    Attributes:
        ssim: structural similarity, 1 for the same image.
        psnr: peak signal-to-noise ratio in decibels, at most `MOST_PSNR`.
        pairs: which guess belongs to each image, (n,).
    """

    ssim: float
    psnr: float
    pairs: NDArray[np.int64]


def likeness(images: Numbers, guesses: Numbers) -> Likeness:
    """Compare images (n, side, side) with guesses (m, side, side), m at least n, each with another one.

    A batch has no order: images and guesses are paired so that the sum of their SSIM is largest.

    Raises:
        NotOffered: SciPy is not installed.
    """
    found = ssim(images[:, None], np.clip(guesses, 0, 1)[None])
    rows, pairs = scipy_part("optimize").linear_sum_assignment(found, maximize=True)
    errors = ((images - np.clip(guesses[pairs], 0, 1)) ** 2).mean(axis=(1, 2))
    psnr = -10 * np.log10(np.maximum(errors, 10 ** (-MOST_PSNR / 10)))
    return Likeness(float(found[rows, pairs].mean()), float(psnr.mean()), pairs)


def ssim(one: Numbers, other: Numbers) -> Numbers:
    """Structural similarity of images (..., side, side) in [0, 1], (...); shapes are broadcast.

    Z. Wang et al., "Image Quality Assessment: From Error Visibility to Structural Similarity" (2004), with a Gaussian
    window.

    Raises:
        NotOffered: SciPy is not installed.
    """

    def mean(values: Numbers) -> Numbers:
        deviations = (0.0,) * (values.ndim - 2) + (SSIM_DEVIATION,) * 2
        return np.asarray(scipy_part("ndimage").gaussian_filter(values, deviations, truncate=3.5))

    first, second = mean(one), mean(other)
    spreads = mean(one**2) - first**2 + mean(other**2) - second**2
    together = mean(one * other) - first * second
    level, contrast = SSIM_CONSTANTS
    alike = (2 * first * second + level) * (2 * together + contrast)
    return np.asarray((alike / ((first**2 + second**2 + level) * (spreads + contrast))).mean(axis=(-2, -1)))


def scipy_part(name: str) -> Any:
    """A package of SciPy, which comes with the extra `experiments`.

    Raises:
        NotOffered: it is not installed.
    """
    try:
        return importlib.import_module(f"scipy.{name}")
    except ImportError as exc:
        raise NotOffered(f"needs SciPy: {install('experiments')}") from exc
