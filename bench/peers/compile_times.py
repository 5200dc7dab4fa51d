#!/usr/bin/env python3
"""Compile times of Tenon beside torch.compile: what a new process takes until the first result.

    bench/peers/compile_times.py tests/data/models/mlp_digits.pt2 build/release/recordings/models/resnet18.pt2

For each archive and each of both: cold, with an empty disk cache, and warm, with the cache that the
cold process left; each start is a process of its own, and the rounds alternate. Tenon's figures are
those of `tenon bench`; torch's are the time of the first call of torch.compile on the loaded program
less that of a later call. Prints one line a model, in ms, and how many times faster Tenon is; then the
geometric means. Needs torch.
"""

import argparse
import json
import math
import os
import shutil
import subprocess
import sys
import tempfile

import results

ROOT = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))

FIRST_CALL = """
import json, os, sys, time, torch
torch.set_num_threads(int(sys.argv[2]))
program = torch.export.load(sys.argv[1])
module = program.module()
if program.example_inputs is not None:
    args, kwargs = program.example_inputs
else:
    from safetensors.torch import load_file
    recorded = load_file(os.path.splitext(sys.argv[1])[0] + ".io.safetensors")
    names = sorted((k for k in recorded if k.startswith("in.")), key=lambda k: int(k[3:]))
    args, kwargs = tuple(recorded[n] for n in names), {}
compiled = torch.compile(module)
with torch.no_grad():
    begin = time.perf_counter()
    compiled(*args, **kwargs)
    first = time.perf_counter() - begin
    begin = time.perf_counter()
    compiled(*args, **kwargs)
    later = time.perf_counter() - begin
print(json.dumps({"ms": (first - later) * 1e3}))
"""


def torch_starts(path, a):
    """Cold and warm in ms, or None where torch.compile cannot do it."""
    cache = tempfile.mkdtemp(prefix="inductor-cache-")
    environment = dict(os.environ, TORCHINDUCTOR_CACHE_DIR=cache)
    try:
        times = []
        for _ in range(2):
            done = subprocess.run([sys.executable, "-c", FIRST_CALL, path, str(a.threads)], text=True,
                                  env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            if done.returncode:
                print(f"{path}: torch.compile failed: {done.stderr.strip().splitlines()[-1]}",
                      file=sys.stderr)
                return None
            times.append(json.loads(done.stdout.splitlines()[-1])["ms"])
        return times
    finally:
        shutil.rmtree(cache, ignore_errors=True)


def tenon_starts(path, a):
    command = [a.tenon, "bench", path, "--backend", a.backend, "--threads", str(a.threads),
               "--rounds", "1", "--time", "50ms", "--json", "-q"]
    done = subprocess.run(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    if done.returncode:
        print(f"{path}: tenon failed: {done.stderr.strip()}", file=sys.stderr)
        return None
    result = json.loads(done.stdout)["results"][0]
    return [result["cold_compile_ms"], result["warm_compile_ms"]]


def best(rounds):
    """The least of each figure: other programs only ever make one larger."""
    rounds = [r for r in rounds if r]
    return [min(times) for times in zip(*rounds)] if rounds else None


def measure(path, a):
    ours, theirs = [], []
    for _ in range(a.rounds):
        ours.append(tenon_starts(path, a))
        theirs.append(torch_starts(path, a))
    return {"model": os.path.splitext(os.path.basename(path))[0], "tenon_ms": best(ours),
            "torch_ms": best(theirs)}


def mean(values):
    return math.exp(sum(math.log(v) for v in values) / len(values)) if values else float("nan")


def print_table(rows):
    print(f"{'model':28} {'tenon cold':>11} {'warm':>8} {'torch cold':>11} {'warm':>8} "
          f"{'cold x':>8} {'warm x':>8}")
    ratios = [], []
    for row in rows:
        ours, theirs = row["tenon_ms"], row["torch_ms"]
        if not ours or not theirs:
            print(f"{row['model']:28} failed: {'tenon' if not ours else 'torch.compile'}")
            continue
        by = [t / o for t, o in zip(theirs, ours)]
        for i in range(2):
            ratios[i].append(by[i])
        print(f"{row['model']:28} {ours[0]:11.1f} {ours[1]:8.1f} {theirs[0]:11.0f} {theirs[1]:8.0f} "
              f"{by[0]:8.0f} {by[1]:8.0f}")
    print(f"geometric means: {mean(ratios[0]):.0f} times faster cold, {mean(ratios[1]):.0f} warm")
    return ratios


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("models", nargs="+", help=".pt2 archives")
    ap.add_argument("--backend", default="inductor")
    ap.add_argument("--threads", type=int, default=2)
    ap.add_argument("--rounds", type=int, default=1)
    ap.add_argument("--tenon", default=os.path.join(ROOT, "build/release/bin/tenon"))
    a = ap.parse_args()
    rows = [measure(path, a) for path in a.models]
    cold, warm = print_table(rows)
    results.save("compile_times", f"Compiling {len(cold)} models in a new process beside torch.compile",
                 "torch.compile's time over Tenon's, without and with the disk cache of the cold start.",
                 ["", "cold", "warm"], [["geometric mean", mean(cold), mean(warm)], ["least", min(cold), min(warm)]])


if __name__ == "__main__":
    main()
