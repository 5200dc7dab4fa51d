#!/usr/bin/env python3
"""The handwritten digits of UCI's Optical Recognition of Handwritten Digits (test part), as
`data/digits.safetensors`, from the copy that scikit-learn ships.

    make_digits.py recordings/data/digits.safetensors

The same file comes out each time. Needs torch, numpy and scikit-learn.
"""

import sys
import numpy
import torch
from sklearn.datasets import load_digits
import safetensors_file

TRAIN = 1500  # of 1797 images
META = {
    "source": "UCI Optical Recognition of Handwritten Digits (test part), 1797 images of 8x8,"
    " values 0..16",
    "split": f"shuffled with a fixed seed; {TRAIN} train, 297 test",
}


def main(path):
    digits = load_digits()
    order = numpy.random.default_rng(0).permutation(len(digits.images))
    parts = {"train": order[:TRAIN], "test": order[TRAIN:]}
    tensors = {}
    for name, places in parts.items():
        images = digits.images[places].astype(numpy.uint8)
        labels = digits.target[places].astype(numpy.uint8)
        tensors[f"{name}.images"] = torch.from_numpy(images)
        tensors[f"{name}.labels"] = torch.from_numpy(labels)
    safetensors_file.save(tensors, path, META)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: make_digits.py FILE")
    main(sys.argv[1])
