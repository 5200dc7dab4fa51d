#!/usr/bin/env python3
"""Records how torch.compile meets changing shapes, for `dynamic_shape_recordings`.

A recording says itself how it is made: a function (`function_source`), how it is compiled
(`compile_args`, `config`) and the arguments of some calls (`steps`). This script makes the calls
and writes everything else anew: results, graphs, guards and why it was compiled again. So a new
scenario is a JSON file with `name`, `what_it_checks` and those fields; of a step only `args` and,
where it has one, `context`.

    make_dynamic_shapes.py recordings/reference/dynamic_shapes               all of the folder
    make_dynamic_shapes.py recordings/reference/dynamic_shapes matmul        only these
    make_dynamic_shapes.py --compare recordings/reference/dynamic_shapes     what is other by now

Needs torch 2.13. Neither the product nor its tests run this.
"""

import contextlib, logging, re, sys
import torch
import torch._dynamo as dyn
import torch.fx.experimental._config as shape_config
from torch._dynamo.eval_frame import _debug_get_cache_entry_list
import recording_files

DTYPES = {
    "f32": torch.float32,
    "f64": torch.float64,
    "f16": torch.float16,
    "i64": torch.int64,
    "i32": torch.int32,
}
MOST_VALUES = 64  # of larger results the sum is recorded
FILL = (
    "float: v[i]=((7*i+3) mod 11)*0.25-1.0 over flat index i; int: (7*i+3) mod 11; transposed:"
    " filled in reversed shape, then transposed"
)

# ---- arguments


def numbers(shape, dtype):
    raw = [(7 * i + 3) % 11 for i in range(torch.Size(shape).numel())]
    return [v * 0.25 - 1.0 for v in raw] if dtype.is_floating_point else raw


def tensor_of(said):
    dtype, shape = DTYPES[said.get("dtype", "f32")], said["tensor"]
    if "view_of_larger" in said:
        larger = [said["view_of_larger"], *shape[1:]]
        whole = torch.tensor(numbers(larger, dtype), dtype=dtype).view(larger).clone()
        return whole[: shape[0]]
    filled = shape[::-1] if said.get("transposed") else shape
    values = said.get("values", numbers(filled, dtype))
    out = torch.tensor(values, dtype=dtype).reshape(filled).clone()
    if said.get("transposed"):
        out = out.t()
    for kind, dim, *bounds in said.get("marks", []):
        name = f"maybe_mark_{kind[6:]}" if kind.startswith("maybe_") else f"mark_{kind}"
        getattr(dyn.decorators, name)(out, dim, **(bounds[0] if bounds else {}))
    return out.requires_grad_() if said.get("requires_grad") else out


def arguments_of(step):
    out = []
    for said in step["args"]:
        if not isinstance(said, dict):
            out.append(said)
        elif "same_as" in said:
            out.append(out[said["same_as"]])
        elif "list" in said:
            out.append([tensor_of(part) for part in said["list"]])
        else:
            out.append(tensor_of(said))
    return out


def context_of(step):
    name = step.get("context", "")
    if name.startswith("stance:"):
        return torch.compiler.set_stance(name.removeprefix("stance:"))
    if name == "deterministic":
        return deterministic()
    modes = {"no_grad": torch.no_grad, "inference_mode": torch.inference_mode}
    return modes.get(name, contextlib.nullcontext)()


@contextlib.contextmanager
def deterministic():
    torch.use_deterministic_algorithms(True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(False)


# ---- what is told


def shown(result):
    if isinstance(result, (tuple, list)):
        return [shown(part) for part in result]
    if not isinstance(result, torch.Tensor):
        return result
    out = {"shape": list(result.shape), "dtype": str(result.dtype).removeprefix("torch.")}
    if result.numel() > MOST_VALUES:
        return out | {"sum": round(result.detach().double().sum().item(), 6)}
    values = result.detach().flatten().tolist()
    return out | {"values": [round(v, 6) if isinstance(v, float) else v for v in values]}


def node_shape(node):
    value = node.meta.get("example_value")
    if isinstance(value, torch.Tensor):
        return [str(size) for size in value.shape]
    return None if value is None or isinstance(value, (tuple, list)) else str(value)


def node_name(node):
    if node.op == "placeholder":
        return node.name
    return node.target if isinstance(node.target, str) else node.target.__name__


def graph_of(graph_module):
    nodes = [node for node in graph_module.graph.nodes if node.op not in ("output", "get_attr")]
    return [[node.op, node_name(node), node_shape(node)] for node in nodes]


def plain(text):
    """Guards as the recordings write them: x.size[0] for L['x'].size()[0]."""
    text = re.sub(r"\s+#.*", "", text.strip())
    text = re.sub(r"L\['(\w+)'\]", r"\1", text)
    return re.sub(r"\.(size|stride|storage_offset)\(\)", r".\1", text)


def match_of(text):
    call = r"check_tensor\((\S+), \w+, DispatchKeySet\([^)]*\), (.*)\)"
    name, rest = re.match(call, text).groups()
    fields = re.match(
        r"torch\.(\w+), device=\S+, requires_grad=(\w+), size=(\[.*?\]), stride=(\[.*?\])", rest
    )
    dtype, grad, size, stride = fields.groups()
    as_list = lambda t: [None if v == "None" else int(v) for v in re.findall(r"None|-?\d+", t)]
    return {
        "input": name,
        "dtype": dtype,
        "requires_grad": grad == "True",
        "size": as_list(size),
        "stride": as_list(stride),
    }


def guards_of(entry):
    found = {"tensor_match": [], "shape": [], "aliasing": [], "value": []}
    for line in str(entry.guard_manager).splitlines():
        at = re.match(r"[| ]*\+- (\w+): (.*)", line)
        if not at:
            continue
        kind, text = at[1], plain(at[2])
        if "G[" in text:  # of modules and closures
            continue
        if kind == "TENSOR_MATCH":
            found["tensor_match"].append(match_of(text))
        elif kind == "NO_TENSOR_ALIASING" and text:
            names = re.findall(r"[\w\[\]]+", text.removeprefix("check_no_aliasing"))
            found["aliasing"].append(f"no_alias({', '.join(sorted(names))})")
        elif kind == "OBJECT_ALIASING":
            found["aliasing"].append(text)
        elif kind in ("EQUALS_MATCH", "LENGTH_CHECK"):
            found["value"].append(text)
        elif kind == "LAMBDA_GUARD" and " is " in text:
            found["aliasing"].append(text)
        elif kind == "LAMBDA_GUARD" and is_of_arguments(text):
            found["shape"].append(text)
    return {kind: guards for kind, guards in found.items() if guards}


def is_of_arguments(text):
    return "._base" not in text and "top_saved_tensors_hooks" not in text


def reason_lines(text):
    lines = [re.sub(r"\s+#.*", "", line.strip()) for line in text.splitlines()[2:]]
    return [plain(line.removeprefix("- ")) for line in lines if re.match(r"- \d+/\d+: ", line)]


class Heard(logging.Handler):
    """Reasons of recompiles and warnings of a call."""

    def __init__(self):
        super().__init__(logging.DEBUG)
        self.reasons, self.warning = [], None

    def emit(self, record):
        text = record.getMessage()
        if text.startswith("Recompiling function"):
            self.reasons += reason_lines(text)
        elif record.levelno == logging.WARNING and "recompile_limit" in text:
            self.warning = re.sub(r"https?://\S+", "<link>", text)


# ---- a recording


class Scenario:
    def __init__(self, old):
        names = {"torch": torch}
        exec(compile(old["function_source"], "scenario.py", "exec"), names)
        (self.function,) = [v for k, v in names.items() if k.startswith("f_")]
        self.run = torch.compile(self.function, backend=self.backend, **old["compile_args"])
        self.graphs, self.ran, self.known = [], [], set()

    def backend(self, graph_module, example_inputs):
        number = len(self.graphs)
        self.graphs.append(graph_of(graph_module))

        def call(*args):
            self.ran.append(number)
            return graph_module.forward(*args)

        return call

    def step(self, said):
        compiled, self.ran, heard = len(self.graphs), [], Heard()
        out = {key: said[key] for key in ("args", "context") if key in said}
        loggers = [
            logging.getLogger("torch._dynamo.convert_frame"),
            torch._logging.getArtifactLogger("torch._dynamo.guards", "recompiles"),
        ]
        for logger in loggers:
            logger.addHandler(heard)
        try:
            given = arguments_of(said)
            with context_of(said):
                out["output"] = shown(self.run(*given))
        except Exception as error:
            lines = [line.strip() for line in str(error).splitlines() if line.strip()]
            out["error"] = {"type": type(error).__name__, "message": " | ".join(lines)[:600]}
            heard.reasons = heard.reasons or reason_lines(str(error))
        for logger in loggers:
            logger.removeHandler(heard)
        return out | self.cache(compiled) | self.heard(heard)

    def cache(self, compiled):
        entries = _debug_get_cache_entry_list(self.function.__code__)
        ids = [str(entry.compile_id) for entry in entries]
        made = [entry for entry in entries if str(entry.compile_id) not in self.known]
        self.known.update(ids)
        out = {"graphs_compiled": len(self.graphs) - compiled, "graphs_run": self.ran}
        if out["graphs_compiled"]:
            out["graphs"] = self.graphs[compiled:]
        out |= {"new_cache_entries": len(made), "cache_entries_total": len(ids)}
        out["cache_order_after"] = ids
        if made:
            out["guards"] = [guards_of(entry) for entry in made]
        return out

    def heard(self, heard):
        out = {"recompile_reasons": heard.reasons} if heard.reasons else {}
        return out | ({"warning": heard.warning} if heard.warning else {})


@contextlib.contextmanager
def patched(flags):
    """Flags of dynamo, and of shapes where the name says so."""
    of_shapes = {k.removeprefix("shapes."): v for k, v in flags.items() if k.startswith("shapes.")}
    of_dynamo = {k: v for k, v in flags.items() if not k.startswith("shapes.")}
    with dyn.config.patch(**of_dynamo), shape_config.patch(**of_shapes):
        yield


def record(old):
    dyn.reset()
    dyn.utils.counters.clear()
    with patched(old["config"]):
        scenario = Scenario(old)
        steps = [scenario.step(said) for said in old["steps"]]
    breaks = dyn.utils.counters["graph_break"]
    reasons = [" ".join(reason.split())[:300] for reason in breaks]
    said = ("name", "what_it_checks", "function_source", "compile_args", "config")
    return {
        **{key: old[key] for key in said},
        "input_fill": FILL,
        "steps": steps,
        "totals": {
            "graphs_compiled": len(scenario.graphs),
            "graph_breaks": sum(breaks.values()),
            "graph_break_reasons": reasons,
        },
        "produced_by": "torch 2.13.0 (CPU), graph-capturing backend equivalent to eager",
    }


def index_line(name, recording):
    steps = recording["steps"]
    return {
        "file": name + ".json",
        "what": recording["what_it_checks"],
        "graphs_compiled_per_step": [step["graphs_compiled"] for step in steps],
        "cache_entries": [step["cache_entries_total"] for step in steps],
    }


if __name__ == "__main__":
    torch._logging.set_logs(recompiles=True)
    options = recording_files.arguments(__doc__, "dynamic_shapes")
    sys.exit(0 if recording_files.make(options, record, index_line) else 1)
