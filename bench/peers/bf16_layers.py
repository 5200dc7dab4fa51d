#!/usr/bin/env python3
"""Feed-forward layers in bf16 and f32 beside torch eager and torch.compile.

    bench/peers/bf16_layers.py [--rounds 5] [--layers 4]

Four layers x + W2 gelu(W1 x) of 768 and 3072 channels, of one row and of 128. Programs take turns;
prints for each dtype and number of rows Tenon's median in us and each peer's median over it (above 1:
Tenon is faster). Needs torch and safetensors.
"""

import argparse
import json
import os
import statistics
import subprocess
import tempfile
import time

import torch
from safetensors.torch import save_file

import results

ROOT = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))


class Layer(torch.nn.Module):
    def __init__(self, channels, inner):
        super().__init__()
        self.up = torch.nn.Linear(channels, inner)
        self.down = torch.nn.Linear(inner, channels)

    def forward(self, x):
        return x + self.down(torch.nn.functional.gelu(self.up(x)))


def median_us(call, seconds=0.5):
    call()
    times, end = [], time.perf_counter() + seconds
    while time.perf_counter() < end or len(times) < 3:
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return 1e6 * statistics.median(times)


def tenon_us(archive, threads):
    command = [os.path.join(ROOT, "build/release/bin/tenon"), "bench", archive, "--backend", "inductor", "--json",
               "--inputs", archive + ".safetensors", "--threads", str(threads)]
    out = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    rows = out if isinstance(out, list) else out["results"]
    return rows[0]["latency_us"]["median"]


def measure(a, dtype, rows, folder):
    module = torch.nn.Sequential(*[Layer(768, 3072) for _ in range(a.layers)]).to(dtype).eval()
    x = torch.randn(rows, 768, dtype=dtype)
    archive = os.path.join(folder, f"layers_{rows}_{dtype}.pt2")
    with torch.no_grad():
        torch.export.save(torch.export.export(module, (x,)), archive)
        save_file({"in.0": x}, archive + ".safetensors")
        compiled = torch.compile(module)
        turns = {"tenon": lambda: tenon_us(archive, a.threads), "eager": lambda: median_us(lambda: module(x)),
                 "compile": lambda: median_us(lambda: compiled(x))}
        times = {name: [] for name in turns}
        for _ in range(a.rounds):
            for name, turn in turns.items():
                times[name].append(turn())
    medians = {name: statistics.median(t) for name, t in times.items()}
    own = medians["tenon"]
    print(f"{str(dtype):16} {rows:4} rows  tenon {own:8.0f} us  eager {medians['eager'] / own:5.2f}  "
          f"torch.compile {medians['compile'] / own:5.2f}", flush=True)
    return [f"{str(dtype).removeprefix('torch.')}, {rows} rows", f"{own:.0f} us", medians["eager"] / own,
            medians["compile"] / own]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--threads", type=int, default=2)
    a = parser.parse_args()
    torch.set_num_threads(a.threads)
    with tempfile.TemporaryDirectory() as folder:
        table = [measure(a, dtype, rows, folder) for rows in (1, 128) for dtype in (torch.bfloat16, torch.float32)]
    results.save("bf16_layers", f"{a.layers} feed-forward layers of 768 and 3072 channels beside torch",
                 "A peer's median over Tenon's: above 1, Tenon is faster.",
                 ["dtype, rows", "Tenon", "torch eager", "torch.compile"], table)


if __name__ == "__main__":
    main()
