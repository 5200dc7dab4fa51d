#!/usr/bin/env python3
"""Latency of Tenon on models beside torch eager, torch.compile, ONNX Runtime and OpenVINO.

    bench/peers/cpu_models.py --rounds 5 [--models resnet18,bert_mini]
    bench/peers/cpu_models.py --models kernels    single kernels of 1 M and 16 M elements, a small MLP
    bench/peers/cpu_models.py --models recurrent  LSTM and GRU layers

Runs cpu_harness.py with Tenon as one more engine: all engines of a model are alive together and take
turns, so that what disturbs the machine hits all of them. Prints one line a model: Tenon's median in
ms, and every peer's median over it (above 1: Tenon is faster); then the geometric means, and the
ratio to the best peer. The table goes to bench/results, from where ./dev figures --page shows it.
Needs torch; ONNX Runtime and OpenVINO where they are there.
"""

import argparse
import json
import math
import os
import subprocess
import sys

import results

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.abspath(os.path.join(HERE, "..", ".."))
MODELS = ["resnet18", "mobilenet_v3_small", "vit_tiny", "encoder_4x256_s128", "encoder_12x768_s128",
          "gpt_4x256_s256", "bert_mini", "gpt2_cut", "dlrm_small"]
KERNELS = ["mlp_infer_b1"] + [
    f"pw_{kernel}_{size}" for size in ("1m", "16m")
    for kernel in ("pointwise3", "gelu_bias", "chain10", "softmax_rows", "layernorm_rows")]
RECURRENT = [f"{kind}_{size}" for kind in ("lstm", "gru") for size in ("64_b1", "256_b8", "512_b32")]
PEERS = ["eager", "compile", "freeze", "ort", "openvino"]


EXPORT = """
import sys, torch
sys.path.insert(0, sys.argv[1])
import peer_models
case = peer_models.REG[sys.argv[2]]()


class Function(torch.nn.Module):
    def forward(self, *args):
        return case.fn(*args)


module = case.fn.eval() if isinstance(case.fn, torch.nn.Module) else Function()
torch.export.save(torch.export.export(module, tuple(case.args)), sys.argv[3])
"""


def export(a):
    """Archives of the models that the corpus does not have; their inputs are random."""
    for name in a.models:
        path = os.path.join(a.work, name + ".pt2")
        corpus = os.path.join(ROOT, "build/release/recordings/models")
        is_in_corpus = os.path.exists(os.path.join(corpus, name + ".pt2"))
        if not is_in_corpus and not os.path.exists(path):
            subprocess.run([sys.executable, "-c", EXPORT, HERE, name, path], check=False)


def measure(a):
    """The JSON of one run of the harness."""
    export(a)
    program = os.path.join(ROOT, "build/release/bin/tenon")
    out = os.path.join(a.work, "cpu_models.json")
    worker = f"{program} bench-worker {{pt2}} --backend {a.backend} --threads {{threads}}"
    command = [sys.executable, os.path.join(HERE, "cpu_harness.py"), "--threads", str(a.threads),
               "--rounds", str(a.rounds), "--run-s", str(a.run_s), "--work", a.work, "--out", out,
               "--engines", a.engines, "--extra", f"tenon={worker}"]
    command += ["--models", ",".join(a.models)]
    subprocess.run(command, check=True, stdout=sys.stderr)
    with open(out) as f:
        return json.load(f)


def ratios_of(row):
    """Peer's median over Tenon's, by peer."""
    own = row.get("tenon", {}).get("median_us")
    if not own:
        return {}
    return {p: row[p]["median_us"] / own for p in PEERS if "median_us" in row.get(p, {})}


def mean_of(values):
    return math.exp(sum(map(math.log, values)) / len(values)) if values else float("nan")


def print_table(steady):
    print(f"{'model':<22}{'tenon ms':>10}" + "".join(f"{p:>10}" for p in PEERS) + f"{'best':>10}")
    columns = {p: [] for p in PEERS + ["best"]}
    for model, row in steady.items():
        ratios = ratios_of(row)
        if not ratios:
            print(f"{model:<22}{'failed':>10}")
            continue
        ratios["best"] = min(ratios.values())
        for p, r in ratios.items():
            columns[p].append(r)
        cells = "".join(f"{ratios[p]:>10.2f}" if p in ratios else f"{'-':>10}" for p in columns)
        print(f"{model:<22}{row['tenon']['median_us'] / 1e3:>10.3f}" + cells)
    print(f"{'geometric mean':<32}" + "".join(f"{mean_of(columns[p]):>10.2f}" for p in columns))


def save(result, what):
    """Milliseconds of Tenon, a peer's median over it, and the geometric means."""
    rows, columns = [], {p: [] for p in PEERS}
    for model, row in result["steady"].items():
        ratios = ratios_of(row)
        for p, r in ratios.items():
            columns[p].append(r)
        own = row.get("tenon", {}).get("median_us")
        rows.append([model, f"{own / 1e3:.2f} ms" if own else "failed"] + [ratios.get(p) for p in PEERS])
    rows.append(["geometric mean", None] + [mean_of(columns[p]) if columns[p] else None for p in PEERS])
    versions = ", ".join(f"{name} {version}" for name, version in result["machine"].get("versions", {}).items())
    results.save(f"cpu_{what}", f"Latency of Tenon beside other engines: {what}",
                 f"A peer's median over Tenon's: above 1, Tenon is faster. All engines use {result['threads']} "
                 f"threads and take turns in one run; {versions}.",
                 ["model", "Tenon", "torch eager", "torch.compile", "with freezing", "ONNX Runtime", "OpenVINO"], rows)


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--models", default="models", help="names, or: models, kernels, recurrent")
    ap.add_argument("--engines", default=",".join(PEERS))
    ap.add_argument("--backend", default="inductor")
    ap.add_argument("--threads", type=int, default=2)
    ap.add_argument("--rounds", type=int, default=5)
    ap.add_argument("--run-s", type=float, default=0.25)
    ap.add_argument("--work", default="/tmp/cpu_peers")
    a = ap.parse_args()
    what = a.models
    a.models = {"models": MODELS, "kernels": KERNELS, "recurrent": RECURRENT}.get(a.models) or a.models.split(",")
    os.makedirs(a.work, exist_ok=True)
    result = measure(a)
    print_table(result["steady"])
    if what in ("models", "kernels", "recurrent"):
        save(result, what)


if __name__ == "__main__":
    main()
