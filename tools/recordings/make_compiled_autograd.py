#!/usr/bin/env python3
"""Records what PyTorch's compiled autograd does, for `compiled_autograd_recordings`.

A recording says itself how it is made: `source` is a function that runs backward passes and returns
what is to be remembered. This script runs it in the vocabulary below and writes everything else
anew, so a new scenario is a JSON file with `name`, `what_it_checks` and `source`.

    make_compiled_autograd.py recordings/reference/compiled_autograd            all of the folder
    make_compiled_autograd.py recordings/reference/compiled_autograd mlp_basic  only these

A captured graph is returned as it is: nothing compiles it further, so that captures are the misses
of compiled autograd's own cache. Needs torch 2.13. Neither the product nor its tests run this.
"""

import inspect, linecache, logging, sys, textwrap
import torch
import torch._dynamo as dyn
import torch._dynamo.compiled_autograd as ca
import recording_files

# ---- the vocabulary of sources


def fill(*shape, dtype=torch.float32):
    """Small numbers of both signs that every language can make: see `input_fill`."""
    count = torch.Size(shape).numel()
    numbers = [((7 * i + 3) % 11) * 0.25 - 1.0 for i in range(count)]
    return torch.tensor(numbers, dtype=dtype).reshape(shape)


def P(*shape):
    """A parameter."""
    return fill(*shape).requires_grad_(True)


def val(tensor):
    """A tensor as JSON, in the six digits that are compared; None stays."""
    if tensor is None:
        return None
    values = [float(f"{v:.6g}") for v in tensor.detach().flatten().tolist()]
    return {"shape": list(tensor.shape), "values": values}


class Sq(torch.autograd.Function):
    """k x^2 with a backward of its own."""

    @staticmethod
    def forward(ctx, x, k):
        ctx.save_for_backward(x)
        ctx.k = k
        return k * x * x

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        return 2 * ctx.k * x * gradient, None


GR = []  # what was captured, in order


def compiler_fn(graph_module):
    GR.append(description(graph_module))
    return graph_module


def run_ca(body, cfn=compiler_fn):
    """What `body` returns under compiled autograd, the graphs captured, why, and its error."""
    first, reasons = len(GR), MissReasons()
    result = error = None
    with reasons, ca._enable(cfn):
        try:
            result = body()
        except Exception as e:
            error = {"type": type(e).__name__, "message": " ".join(str(e).split())[:300]}
    return result, GR[first:], reasons.texts, error


# ---- what is told of a graph


def node_name(node):
    name = getattr(node.target, "__name__", None) or str(node.target)
    return f"call_hook:{node.kwargs['hook_type']}" if name == "call_hook" else name


def description(graph_module):
    nodes = list(graph_module.graph.nodes)
    calls = [node for node in nodes if node.op.startswith("call_")]
    inputs = {node.name: node for node in nodes if node.op == "placeholder"}
    names = [node_name(node) for node in calls]
    unwraps = [name for name in names if name == "unwrap_maybe_dynamic_int"]
    return {
        "lifted": {
            "tensors": len(inputs["inputs"].users),
            "sizes_used": len(inputs["sizes"].users),
            "scalars": len(inputs["scalars"].users),
            "hooks": len(inputs["hooks"].users),
            "packed_data": len(inputs["packed_data"].users),
        },
        "size_unwrap_nodes": len(unwraps),
        "nodes": [name for name in names if name not in ("getitem", "unwrap_maybe_dynamic_int")],
    }


class MissReasons(logging.Handler):
    """What the verbose log says about misses of the cache."""

    def __init__(self):
        super().__init__(logging.DEBUG)
        self.texts = []

    def emit(self, record):
        text = record.getMessage()
        if text.startswith("Cache miss"):
            self.texts.append(text)

    def __enter__(self):
        ca.verbose_log.addHandler(self)
        return self

    def __exit__(self, *error):
        ca.verbose_log.removeHandler(self)


# ---- a recording


def function_of(source, file):
    """The function that a text defines; inspect finds its lines, since they are registered."""
    lines = source.splitlines(keepends=True)
    linecache.cache[file] = (len(source), None, lines, file)
    names = {}
    exec(compile(source, file, "exec"), globals(), names)
    (function,) = names.values()
    return function


def record(old):
    torch.manual_seed(0)
    dyn.reset()
    ca.reset()
    GR.clear()
    if "scene_source" in old:
        globals()["hook_scene"] = function_of(old["scene_source"], "scene_source")
    found = function_of(old["source"], old["name"])()
    said = {key: old[key] for key in ("name", "what_it_checks", "source")}
    return {
        **said,
        "input_fill": "v[i]=((7*i+3) mod 11)*0.25-1.0 over the flat index",
        "produced_by": recording_files.produced_by()
        + "; compiler_fn returns the captured graph unchanged, so counts are those of the"
        " autograd-structure cache alone",
        **found,
        "total_captures": len(GR),
    }


def index_line(name, recording):
    line = {"file": name + ".json", "what": recording["what_it_checks"]}
    if "captures_per_step" in recording:
        line["captures_per_step"] = recording["captures_per_step"]
    return line


if __name__ == "__main__":
    torch._logging.set_logs(compiled_autograd_verbose=True)
    ca.verbose_log.propagate = False
    options = recording_files.arguments(__doc__, "compiled_autograd")
    sys.exit(0 if recording_files.make(options, record, index_line) else 1)
