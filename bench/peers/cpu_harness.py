#!/usr/bin/env python3
"""Takes the times of models in torch eager, torch.compile, ONNX Runtime and OpenVINO, in turns.

Every (model, engine) runs in a worker process of its own; all engines of one model are alive
together and take turns, round after round, so that a disturbance of the machine hits all of them.
Output: JSON with median, IQR, minimum and the per-round medians in microseconds, and the time to
the first result. A spinning peer on a busy machine jumps to multiples of the scheduler tick (4 ms):
compare min_us with median_us and look at load_before_after.

  cpu_harness.py --threads 2 --rounds 7 --out cpu.json             # everything
  cpu_harness.py --models resnet18,dlrm_small --engines eager,compile,freeze
  cpu_harness.py --extra 'tenon=tenon bench-worker {pt2} --backend inductor --threads {threads}'
  cpu_harness.py --compile-times --out compile.json                # torch.compile, cold and warm

An --extra worker speaks the worker protocol: after its first result it prints one JSON line
{"ready": true, "first_s": seconds}; for each line {"run_s": seconds} on stdin it prints
{"us": [times of calls]}; end of input ends it. {pt2}, {io}, {onnx}, {threads} and {model} are
replaced; {pt2} and {io} exist for the models of tools/recordings/make_models.py (at size bench); the
others are those of peer_models.py.
"""

import argparse
import json
import os
import shlex
import shutil
import statistics as st
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
TOOLS = os.path.abspath(os.path.join(HERE, "..", "..", "tools", "recordings"))
sys.path[:0] = [HERE, TOOLS]
INFER = [
    "resnet18",
    "mobilenet_v3_small",
    "vit_tiny",
    "encoder_4x256_s128",
    "encoder_12x768_s128",
    "gpt_4x256_s256",
    "bert_mini",
    "gpt2_cut",
    "dlrm_small",
]
TRAIN = ["mlp_train_b128", "resnet18_train"]
ENGINES = [
    "eager",
    "compile",
    "freeze",
    "ort",
    "openvino",
]  # "autotune" (max-autotune with freezing) on request
COMPILE = ["pointwise3_1m", "block_256", "resnet18", "mlp_train_b128"]


def load(name):
    import torch
    import peer_models as own

    torch.manual_seed(0)
    if name in own.REG:
        return own.REG[name]()
    os.environ["OMP_NUM_THREADS"] = os.environ.get("OMP_NUM_THREADS", "1")
    import make_models as mm

    b = mm.build(mm.REGISTRY[name], "bench")
    return own.Case("train" if b.train else "infer", b.module, tuple(b.args), lr=b.sgd_lr)


def flat(o):
    import torch
    from torch.utils import _pytree as p

    return [t for t in p.tree_leaves(o) if isinstance(t, torch.Tensor)]


def torch_callable(c, engine):
    import torch

    opts = {}
    if engine in ("freeze", "autotune"):
        import torch._inductor.config as ic

        ic.freezing = True
        if engine == "autotune":
            opts = dict(mode="max-autotune-no-cudagraphs")
    if c.kind == "train":
        opt = torch.optim.SGD(c.fn.parameters(), lr=1e-6)
        f = c.fn if engine == "eager" else torch.compile(c.fn, **opts)
        step = opt.step if engine == "eager" else torch.compile(opt.step)

        def run():
            loss = f(*c.args)
            loss.backward()
            step()
            opt.zero_grad(set_to_none=True)
            return loss

        return run
    f = c.fn if engine == "eager" else torch.compile(c.fn, **opts)

    def run():
        with torch.no_grad():
            return f(*c.args)

    return run


def export_onnx(name, path):
    import torch

    c = load(name)
    torch.onnx.export(c.fn, c.args, path, dynamo=True, verbose=False)


def worker(name, engine, threads, onnx):
    import numpy as np

    real_out = os.dup(1)
    os.dup2(2, 1)
    out = os.fdopen(real_out, "w", buffering=1)
    info = {}
    import torch

    torch.set_num_threads(threads)
    c = load(name)
    if engine in ("eager", "compile", "freeze", "autotune"):
        t = time.perf_counter()
        run = torch_callable(c, engine)
        got = flat(run())
        first = time.perf_counter() - t
        run()
    else:
        args = [a.numpy() for a in flat(c.args)]
        t = time.perf_counter()
        if engine == "ort":
            import onnxruntime as ort

            so = ort.SessionOptions()
            so.intra_op_num_threads, so.inter_op_num_threads = threads, 1
            s = ort.InferenceSession(onnx, so, providers=["CPUExecutionProvider"])
            feed = {i.name: a for i, a in zip(s.get_inputs(), args)}
            run = lambda: s.run(None, feed)
        else:
            import openvino as ov

            core = ov.Core()
            m = core.compile_model(
                onnx,
                "CPU",
                {
                    "INFERENCE_NUM_THREADS": threads,
                    "PERFORMANCE_HINT": "LATENCY",
                    "INFERENCE_PRECISION_HINT": "f32",
                },
            )
            req = m.create_infer_request()
            ins = [ov.Tensor(a, shared_memory=True) for a in args]
            for i, x in enumerate(ins):
                req.set_input_tensor(i, x)
            run = lambda: (req.infer(), req)[1]
        got = run()
        first = time.perf_counter() - t
        got = (
            [
                torch.from_numpy(np.array(got.get_output_tensor(i).data))
                for i in range(len(m.outputs))
            ]
            if engine == "openvino"
            else [torch.from_numpy(a) for a in got]
        )
    if engine != "eager" and c.kind != "train":
        with torch.no_grad():
            want = flat(c.fn(*c.args))
        info["max_rel_err"] = max(
            float((g.float() - w.float()).abs().max() / (w.float().abs().max() + 1e-12))
            for g, w in zip(got, want)
        )
    import resource

    info["rss_mib"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print(json.dumps({"ready": True, "first_s": first, **info}), file=out)
    for line in sys.stdin:
        lim = json.loads(line)["run_s"]
        us, end = [], time.perf_counter() + lim
        run()
        while True:
            t = time.perf_counter()
            run()
            e = time.perf_counter()
            us.append((e - t) * 1e6)
            if e > end and len(us) >= 3:
                break
        print(json.dumps({"us": us}), file=out)


def compile_worker(name, threads):
    import torch

    torch.set_num_threads(threads)
    c = load(name)
    import torch._dynamo  # imports are not counted
    import torch._inductor.compile_fx  # noqa: F401

    t = time.perf_counter()
    run = torch_callable(c, "compile")
    run()
    first = time.perf_counter() - t
    t = time.perf_counter()
    run()
    again = time.perf_counter() - t
    from torch._dynamo.utils import counters, compile_times

    print(
        json.dumps(
            {
                "first_s": first,
                "second_call_s": again,
                "inductor": dict(counters["inductor"]),
                "aot": dict(counters["aot_autograd"]),
            }
        )
    )


def child_env(threads, cache=None):
    e = dict(
        os.environ, OMP_NUM_THREADS=str(threads), MKL_NUM_THREADS=str(threads), HF_HUB_OFFLINE="1"
    )
    if cache:
        e["TORCHINDUCTOR_CACHE_DIR"] = cache
    return e


def me(*a):
    return [sys.executable, os.path.abspath(__file__), *map(str, a)]


def compile_times(a):
    res = {}
    for name in a.models.split(",") if a.models else COMPILE:
        rows = {"cold": [], "warm": []}
        for _ in range(a.rounds):
            d = tempfile.mkdtemp(prefix="ind")
            for kind in ("cold", "warm"):
                p = subprocess.run(
                    me("--compile-worker", name, "--threads", a.threads),
                    env=child_env(a.threads, d),
                    capture_output=True,
                    text=True,
                )
                try:
                    rows[kind].append(json.loads(p.stdout.strip().splitlines()[-1]))
                except Exception:
                    rows[kind].append({"error": p.stderr[-400:]})
            shutil.rmtree(d, ignore_errors=True)
        res[name] = rows
        print(
            name,
            {k: [round(r.get("first_s", -1), 3) for r in v] for k, v in rows.items()},
            flush=True,
        )
    return {"compile_times": res}


def summary(rounds):
    """rounds: one list of call times per round -> medians over the rounds' medians, spread over all calls."""
    med = [st.median(r) for r in rounds]
    allv = sorted(v for r in rounds for v in r)
    q = lambda f: allv[min(len(allv) - 1, int(f * len(allv)))]
    return {
        "median_us": st.median(med),
        "p25_us": q(0.25),
        "p75_us": q(0.75),
        "iqr_us": q(0.75) - q(0.25),
        "min_us": allv[0],
        "calls": len(allv),
        "round_medians_us": [round(m, 2) for m in med],
    }


def bench(a):
    res, loads = {}, {}
    extra = dict(x.split("=", 1) for x in a.extra)
    os.makedirs(a.work, exist_ok=True)
    for name in a.models.split(",") if a.models else INFER + TRAIN:
        onnx = os.path.join(a.work, name + ".onnx")
        engines = (a.engines.split(",") if a.engines else ENGINES) + list(extra)
        train = "train" in name
        if train:
            engines = [e for e in engines if e not in ("freeze", "autotune", "ort", "openvino")]
        if {"ort", "openvino"} & set(engines) and not os.path.exists(onnx):
            p = subprocess.run(
                me("--export-onnx", name, "--work", a.work),
                env=child_env(a.threads),
                capture_output=True,
                text=True,
            )
            if not os.path.exists(onnx):
                print(name, "no onnx:", p.stderr[-300:], flush=True)
                engines = [e for e in engines if e not in ("ort", "openvino")]
        pt2, io = os.path.join(a.work, name + ".pt2"), os.path.join(
            a.work, name + ".io.safetensors"
        )
        if extra and not os.path.exists(pt2):
            subprocess.run(
                [
                    sys.executable,
                    os.path.join(TOOLS, "make_models.py"),
                    "--out",
                    a.work,
                    "--size",
                    "bench",
                    "--only",
                    name,
                ],
                capture_output=True,
            )
        procs, row = {}, {}
        load0 = os.getloadavg()[0]
        for e in engines:
            cmd = (
                shlex.split(
                    extra[e].format(pt2=pt2, io=io, onnx=onnx, threads=a.threads, model=name)
                )
                if e in extra
                else me("--worker", name, "--engine", e, "--threads", a.threads, "--onnx", onnx)
            )
            err = open(os.path.join(a.work, f"{name}.{e}.err"), "w")
            p = subprocess.Popen(
                cmd,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=err,
                text=True,
                env=child_env(a.threads),
            )
            deadline = time.time() + a.start_limit
            line = ""
            import select

            while time.time() < deadline:
                r, _, _ = select.select([p.stdout], [], [], 1.0)
                if r:
                    line = p.stdout.readline()
                    if not line or line.startswith("{"):
                        break
            try:
                row[e] = {
                    "first_s": json.loads(line)["first_s"],
                    **{k: v for k, v in json.loads(line).items() if k not in ("ready", "first_s")},
                }
                procs[e] = p
            except Exception:
                row[e] = {"error": "no result within %d s; see the err file" % a.start_limit}
                p.kill()
        data = {e: [] for e in procs}
        order = list(procs)
        for i in range(a.rounds):
            for e in order[i % len(order) :] + order[: i % len(order)] if order else []:
                p = procs[e]
                try:
                    p.stdin.write(json.dumps({"run_s": a.run_s}) + "\n")
                    p.stdin.flush()
                    data[e].append(json.loads(p.stdout.readline())["us"])
                except Exception:
                    pass
                time.sleep(0.02)
        for e, p in procs.items():
            p.stdin.close()
            if data[e]:
                row[e].update(summary(data[e]))
        for p in procs.values():
            try:
                p.wait(10)
            except subprocess.TimeoutExpired:
                p.kill()
        res[name] = row
        loads[name] = [load0, os.getloadavg()[0]]
        print(
            "%-22s" % name,
            "  ".join(
                "%s %.0f" % (e, v["median_us"]) if "median_us" in v else e + " -"
                for e, v in row.items()
            ),
            flush=True,
        )
        if a.out:
            dump(a, {"steady": res, "load_before_after": loads})
    return {"steady": res, "load_before_after": loads}


def machine():
    cpu = next(
        (l.split(":", 1)[1].strip() for l in open("/proc/cpuinfo") if l.startswith("model name")),
        "?",
    )
    flags = next((l for l in open("/proc/cpuinfo") if l.startswith("flags")), "")
    v = {}
    for m in ("torch", "onnxruntime", "openvino"):
        try:
            from importlib.metadata import version

            v[m] = version(m)
        except Exception:
            pass
    return {
        "cpu": cpu,
        "cores": os.cpu_count(),
        "amx": "amx_tile" in flags,
        "avx512_bf16": "avx512_bf16" in flags,
        "load": os.getloadavg()[0],
        "versions": v,
        "time": time.strftime("%Y-%m-%d %H:%M:%S"),
    }


def dump(a, d):
    with open(a.out, "w") as f:
        json.dump(
            {"machine": machine(), "threads": a.threads, "rounds": a.rounds, **d}, f, indent=1
        )


def main():
    ap = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    ap.add_argument("--threads", type=int, default=2)
    ap.add_argument("--rounds", type=int, default=5)
    ap.add_argument("--run-s", type=float, default=0.25, help="seconds of calls for each turn")
    ap.add_argument("--models")
    ap.add_argument("--engines")
    ap.add_argument("--extra", action="append", default=[], help="NAME=COMMAND, one more engine")
    ap.add_argument("--out")
    ap.add_argument("--work", default=os.path.join(tempfile.gettempdir(), "cpu_peers"))
    ap.add_argument(
        "--start-limit", type=int, default=180, help="seconds an engine has to its first result"
    )
    ap.add_argument("--compile-times", action="store_true")
    ap.add_argument("--worker")
    ap.add_argument("--engine")
    ap.add_argument("--onnx")
    ap.add_argument("--export-onnx")
    ap.add_argument("--compile-worker")
    a = ap.parse_args()
    if a.worker:
        return worker(a.worker, a.engine, a.threads, a.onnx)
    if a.compile_worker:
        return compile_worker(a.compile_worker, a.threads)
    if a.export_onnx:
        os.makedirs(a.work, exist_ok=True)
        return export_onnx(a.export_onnx, os.path.join(a.work, a.export_onnx + ".onnx"))
    d = compile_times(a) if a.compile_times else bench(a)
    if a.out:
        dump(a, d)


if __name__ == "__main__":
    main()
