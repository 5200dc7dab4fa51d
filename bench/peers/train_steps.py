#!/usr/bin/env python3
"""Training steps of Tenon beside torch eager and torch.compile, taking turns in one run.

    bench/peers/train_steps.py --worker build/release/bench/peers/train_steps --threads 2 --rounds 5

Needs torch. A round times torch, then each mode of the worker; a figure is the fastest of the steps
of a round, and what is printed is the median over rounds and its ratio to torch's (smaller is
better). Models, losses and optimiser (AdamW) are the same; weights and inputs are random.
"""

import argparse
import math
import os
import statistics
import subprocess
import time

import results


class Models:
    """The models of train_steps.cpp."""

    def __init__(self, threads):
        import torch

        self.torch = torch
        torch.set_num_threads(threads)

    def mlp(self):
        nn = self.torch.nn
        net = nn.Sequential(
            nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 256),
            nn.ReLU(), nn.Linear(256, 10),
        )
        return net, self.torch.randn(128, 64), self.torch.randint(0, 10, (128,))

    def cnn(self):
        nn = self.torch.nn

        def block(i, o):
            return nn.Sequential(
                nn.Conv2d(i, o, 3, padding=1, bias=False), nn.BatchNorm2d(o), nn.ReLU()
            )

        net = nn.Sequential(
            block(1, 32), block(32, 64), nn.MaxPool2d(2), block(64, 64), nn.MaxPool2d(2),
            nn.Flatten(), nn.Linear(256, 10),
        )
        return net, self.torch.randn(50, 1, 8, 8), self.torch.randint(0, 10, (50,))

    def layers(self, is_causal):
        torch, nn = self.torch, self.torch.nn
        mask = nn.Transformer.generate_square_subsequent_mask(64) if is_causal else None

        class Layer(nn.Module):
            def __init__(self):
                super().__init__()
                self.norm1, self.norm2 = nn.LayerNorm(128), nn.LayerNorm(128)
                self.attention = nn.MultiheadAttention(128, 4, batch_first=True)
                self.up, self.down = nn.Linear(128, 512), nn.Linear(512, 128)

            def forward(self, x):
                n = self.norm1(x)
                h = x + self.attention(
                    n, n, n, need_weights=False, attn_mask=mask, is_causal=is_causal
                )[0]
                return h + self.down(nn.functional.gelu(self.up(self.norm2(h))))

        return nn.Sequential(*[Layer() for _ in range(6)])

    def transformer(self):
        torch, nn, blocks = self.torch, self.torch.nn, self.layers(False)

        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.blocks, self.classes = blocks, nn.Linear(128, 10)

            def forward(self, x):
                return self.classes(self.blocks(x).mean(1))

        return Net(), torch.randn(8, 64, 128), torch.randint(0, 10, (8,))

    def gpt(self):
        torch, nn, blocks = self.torch, self.torch.nn, self.layers(True)

        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.tokens, self.positions = nn.Embedding(1000, 128), nn.Embedding(64, 128)
                self.blocks, self.norm = blocks, nn.LayerNorm(128)
                self.head = nn.Linear(128, 1000, bias=False)

            def forward(self, x):
                h = self.tokens(x) + self.positions.weight
                return self.head(self.norm(self.blocks(h))).flatten(0, 1)

        return Net(), torch.randint(0, 1000, (8, 64)), torch.randint(0, 1000, (8 * 64,))

    def stepper(self, name, compiled=False):
        torch = self.torch
        net, x, y = getattr(self, name)()
        run = torch.compile(net) if compiled else net
        opt = torch.optim.AdamW(net.parameters(), lr=1e-3)

        def step():
            opt.zero_grad()
            torch.nn.functional.cross_entropy(run(x), y).backward()
            opt.step()

        return step


def fastest(step, steps):
    best = float("inf")
    for _ in range(steps):
        begin = time.perf_counter()
        step()
        best = min(best, (time.perf_counter() - begin) * 1e3)
    return best


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--worker", required=True)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--models", default="mlp,cnn,transformer,gpt")
    parser.add_argument("--no-compile", action="store_true", help="without torch.compile")
    options = parser.parse_args()
    environment = dict(os.environ, TENON_NUM_THREADS=str(options.threads))
    models = Models(options.threads)
    rows = []
    for model in options.models.split(","):
        steps = {"torch": models.stepper(model)}
        if not options.no_compile:
            steps["torch.compile"] = models.stepper(model, compiled=True)
        for step in steps.values():
            fastest(step, 5)
        times = {mode: [] for mode in (*steps, "tape", "forward", "step", "whole", "pure")}
        for _ in range(options.rounds):
            for mode, step in steps.items():
                times[mode].append(fastest(step, options.steps))
            for mode in ("tape", "forward", "step", "whole", "pure"):
                command = [options.worker, model, mode, str(options.steps)]
                out = subprocess.run(command, env=environment, check=True, capture_output=True)
                times[mode].append(float(out.stdout))
        medians = {mode: statistics.median(t) for mode, t in times.items()}
        text = ", ".join(
            f"{mode} {ms:.2f} ms ({ms / medians['torch']:.2f})" for mode, ms in medians.items()
        )
        print(f"{model}: {text}")
        rows.append([model, medians])
    if not options.no_compile:
        save(rows)


def save(measured):
    """Milliseconds of torch and of the whole step in one graph (fullgraph, stated pure); ratios of the rest."""
    rows = []
    for model, ms in measured:
        ratios = [ms["torch.compile"] / ms["pure"]] + [ms[m] / ms["torch"] for m in ("tape", "forward", "pure")]
        rows.append([model] + [f"{ms[m]:.3g} ms" for m in ("torch", "torch.compile", "pure")] + ratios)
    means = [math.exp(statistics.mean(math.log(row[i]) for row in rows)) for i in range(4, 8)]
    results.save(
        "train_steps", "A training step (forward, backward, AdamW) beside torch",
        "Programs take turns in one run; medians of its rounds. Tenon's times are those of the whole step "
        "compiled as one and stated pure; the last three columns are Tenon's time over torch eager's, so smaller is better there.",
        ["model", "torch eager", "torch.compile", "Tenon", "torch.compile over Tenon", "tape over eager",
         "compiled forward and backward over eager", "compiled step over eager"],
        rows + [["geometric mean", None, None, None] + means])


if __name__ == "__main__":
    main()
