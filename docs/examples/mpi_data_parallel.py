# SPDX-License-Identifier: BSD-3-Clause
"""Trains a small model data-parallel by MPI, in the manner of Horovod: the first rank's parameters are sent to all ranks, and each step
uses the average of all ranks' gradients. It prints the loss of each epoch. DIRECTORY has one directory for each class. A sample is the
first 768 bytes of a file.

    fs-launch --dataset /shared/samples.fs --hosts a,b --np 4 -- python3 docs/examples/mpi_data_parallel.py /data/samples
"""
import os
import random
import sys

import numpy
from mpi4py import MPI

FEATURES, BATCH, EPOCHS, RATE = 768, 4, 3, 0.01


def list_samples(top):
    names = sorted(os.listdir(top))
    return len(names), [(os.path.join(top, name, file), label) for label, name in enumerate(names)
                        for file in sorted(os.listdir(os.path.join(top, name)))]


def load(batch):
    inputs = numpy.empty((len(batch), FEATURES))
    for row, (path, _) in zip(inputs, batch):
        with open(path, "rb") as f:
            row[:] = numpy.frombuffer(f.read(FEATURES).ljust(FEATURES), numpy.uint8) / 255
    return inputs, numpy.array([label for _, label in batch])


def loss_and_gradient(weights, inputs, labels):
    """Softmax regression: the mean cross entropy, and its gradient."""
    scores = inputs @ weights
    scores -= scores.max(axis=1, keepdims=True)
    chances = numpy.exp(scores)
    chances /= chances.sum(axis=1, keepdims=True)
    rows = numpy.arange(len(labels))
    loss = -numpy.log(chances[rows, labels]).mean()
    chances[rows, labels] -= 1
    return loss, inputs.T @ chances / len(labels)


def main(top):
    comm = MPI.COMM_WORLD
    classes, samples = list_samples(top)
    weights = numpy.random.default_rng(comm.rank).normal(size=(FEATURES, classes)) / 100
    comm.Bcast(weights)
    steps = len(samples) // (BATCH * comm.size)
    for epoch in range(EPOCHS):
        order = random.Random(epoch).sample(samples, len(samples))[comm.rank::comm.size]
        total = 0.0
        for step in range(steps):
            loss, gradient = loss_and_gradient(weights, *load(order[step * BATCH:(step + 1) * BATCH]))
            average = numpy.empty_like(gradient)
            comm.Allreduce(gradient, average)
            weights -= RATE * average / comm.size
            total += loss
        total = comm.allreduce(total) / steps / comm.size
        if comm.rank == 0:
            print(f"epoch {epoch}: loss {total:.6f}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
