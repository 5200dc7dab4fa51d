#!/usr/bin/env python3
"""Records how PyTorch cuts joint graphs into forward and backward, for `partitioner_recordings`.

A recording says itself how it is made: a joint graph (`joint_graph`, `num_fwd_outputs`,
`static_lifetime_input_indices`) and the configurations to cut it under (`results`: `partitioner`
and `flags`). This script rebuilds the graph over fake tensors, cuts it, and writes everything else
anew: what is saved, recomputed and banned, and what the search knew of each node. `torch_defect`
was written by hand and stays. A new scenario is a JSON file with those fields; or, in place of
`joint_graph`, `function_source` (a function f) and `inputs` (shapes, of tensors that need
gradients), from which the script takes the joint graph.

    make_partitioner.py recordings/reference/partitioner               all of the folder
    make_partitioner.py recordings/reference/partitioner mlp_relu      only these
    make_partitioner.py --compare recordings/reference/partitioner     what is other by now

Needs torch 2.13, networkx and, for the exact solver, scipy. Neither the product nor its tests run
this.
"""

import math, operator, sys
import networkx
import sympy
import torch
import torch._functorch.config as functorch_config
import torch._functorch.partitioners as partitioners
from torch._dynamo.source import ConstantSource
from torch._functorch.aot_autograd import aot_function
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.utils._sympy.numbers import int_oo
from torch.utils._sympy.value_ranges import ValueRanges
from torch.utils.checkpoint import CheckpointPolicy
import recording_files

CLASSES = {"required_fw_nodes": "fw", "required_bw_nodes": "bw"}


# ---- from JSON to a graph


def dtype_of(name):
    return getattr(torch, name)


class Symbols:
    """The symbols of a recorded graph, by name, with the sizes that they stand for."""

    def __init__(self, nodes):
        self.env, self.ints, self.hints = ShapeEnv(), {}, {}
        for node in nodes:
            val = node.get("val") or {}
            for size, hint in zip(val.get("shape", ()), val.get("shape_hint", ())):
                if isinstance(size, str) and size.isidentifier():
                    self.hints.setdefault(size, hint)

    def size(self, said):
        if isinstance(said, int):
            return said
        if said not in self.ints:
            self.ints[said] = self.make(said)
        return self.ints[said]

    def make(self, name):
        hint, symbol = self.hints[name], sympy.Symbol(name, positive=True, integer=True)
        self.env.add_backed_var_to_val(symbol, hint)
        self.env.var_to_range[symbol] = ValueRanges(2, int_oo)
        return self.env.create_symintnode(symbol, hint=hint, source=ConstantSource(name))


def value_of(said, made):
    """An argument of a node."""
    if isinstance(said, list):
        return [value_of(s, made) for s in said]
    if not isinstance(said, dict):
        return said
    if "node" in said:
        return made[said["node"]]
    if "device" in said:
        return torch.device(said["device"])
    (name,) = said.values()
    return getattr(torch, name)


def target_of(name):
    if name == "getitem":
        return operator.getitem
    found = torch.ops
    for part in name.split("."):
        found = getattr(found, part)
    return found


def graph_of(nodes):
    """The joint graph of a recording, over fake tensors."""
    symbols = Symbols(nodes)
    mode = FakeTensorMode(shape_env=symbols.env, allow_non_fake_inputs=True)
    graph, made = torch.fx.Graph(), {}
    for said in nodes:
        args = value_of(said.get("args", []), made)
        kwargs = {k: value_of(v, made) for k, v in said.get("kwargs", {}).items()}
        if said["op"] == "output":
            graph.output(tuple(args))
            continue
        if said["op"] == "placeholder":
            node = graph.placeholder(said["name"])
            node.meta["val"] = fake_of(said["val"], symbols, mode)
        else:
            node = graph.call_function(target_of(said["target"]), tuple(args), kwargs)
            node._rename(said["name"])
            fakes = torch.fx.node.map_arg((node.args, node.kwargs), lambda n: n.meta["val"])
            with mode:
                node.meta["val"] = node.target(*fakes[0], **fakes[1])
        node.meta["partitioner_tag"] = said["tag"]
        if "recompute" in said:
            node.meta["recompute"] = CheckpointPolicy[said["recompute"]]
        made[said["name"]] = node
    return torch.fx.GraphModule(torch.nn.Module(), graph)


def fake_of(val, symbols, mode):
    if val["kind"] == "symint":
        return symbols.size(val["expr"])
    shape, stride = ([symbols.size(s) for s in val[k]] for k in ("shape", "stride"))
    with mode:
        return torch.empty_strided(shape, stride, dtype=dtype_of(val["dtype"]))


# ---- from a graph to JSON


def size_said(size):
    return size if isinstance(size, int) else str(size.node.expr)


def value_said(value, storages):
    if isinstance(value, (tuple, list)):
        return {"kind": "tuple", "elems": [value_said(v, storages) for v in value]}
    if value is None:
        return {"kind": "none"}
    if isinstance(value, torch.SymInt):
        return {"kind": "symint", "expr": str(value.node.expr), "hint": value.node.hint}
    said = {
        "kind": "tensor",
        "shape": [size_said(s) for s in value.shape],
        "stride": [size_said(s) for s in value.stride()],
        "dtype": str(value.dtype).removeprefix("torch."),
    }
    if any(isinstance(s, str) for s in said["shape"]):
        said["shape_hint"] = [s if isinstance(s, int) else s.node.hint for s in value.shape]
    storage = value.untyped_storage()._cdata
    said["storage"] = storages.setdefault(storage, len(storages))
    return said


def argument_said(value):
    if isinstance(value, (tuple, list)):
        return [argument_said(v) for v in value]
    if isinstance(value, torch.fx.Node):
        return {"node": value.name}
    for kind in ("dtype", "layout", "memory_format", "device"):
        if isinstance(value, getattr(torch, kind)):
            return {kind: str(value).removeprefix("torch.")}
    return value


def node_said(node, storages):
    function = node.op == "call_function"
    target = node.target.__name__ if node.target is operator.getitem else str(node.target)
    said = {"name": node.name, "op": node.op, "target": target if function else node.op}
    if node.args:
        args = node.args[0] if node.op == "output" else node.args
        said["args"] = argument_said(args)
    if node.kwargs:
        said["kwargs"] = {k: argument_said(v) for k, v in node.kwargs.items()}
    if node.op == "output":
        return said
    said["val"] = value_said(node.meta["val"], storages)
    said["size_of"] = size_of(node)
    said["tag"] = node.meta["partitioner_tag"]
    if "recompute" in node.meta:
        said["recompute"] = node.meta["recompute"].name
    return said


def joint_graph_of(old):
    """The nodes of the joint graph of a function, as the partitioner gets them."""
    scope = {"torch": torch}
    exec(old["function_source"], scope)
    found = {}

    def keep(joint, inputs, *, num_fwd_outputs, static_lifetime_input_indices=None):
        storages = {}
        joint.graph.eliminate_dead_code()
        found["joint_graph"] = [node_said(n, storages) for n in joint.graph.nodes]
        found["num_fwd_outputs"] = num_fwd_outputs
        return partitioners.default_partition(joint, inputs, num_fwd_outputs=num_fwd_outputs)

    inputs = [torch.rand(shape, requires_grad=True) for shape in old["inputs"]]
    aot_function(scope["f"], lambda g, _: g, partition_fn=keep)(*inputs)
    return found


# ---- cutting


class Watch:
    """What the search for a minimum cut saw: its networks, cuts and classes of nodes."""

    def __enter__(self):
        self.networks, self.cuts, self.info = [], [], None
        self.minimum_cut, self.classify = networkx.minimum_cut, partitioners.classify_nodes
        networkx.minimum_cut, partitioners.classify_nodes = self.cut, self.classes
        return self

    def __exit__(self, *_):
        networkx.minimum_cut, partitioners.classify_nodes = self.minimum_cut, self.classify

    def cut(self, network, *args, **kwargs):
        found = self.minimum_cut(network, *args, **kwargs)
        self.networks.append(network)
        self.cuts.append(found[0])
        return found

    def classes(self, module, *args, **kwargs):
        self.info, self.nodes = self.classify(module, *args, **kwargs), list(module.graph.nodes)
        return self.info

    def banned(self):
        reasons = {}
        for _, node, edge in self.networks[-1].out_edges("source", data=True):
            reason = edge["reason"].removeprefix("cannot recompute: ")
            reasons[node.removesuffix("_in")] = reason
        return reasons

    def weight(self, name):
        edge = self.networks[0].get_edge_data(name + "_in", name + "_out")
        if edge is None:
            return "none"
        return None if edge["capacity"] == math.inf else int(edge["capacity"])

    def node_info(self):
        return {n.name: self.facts(n) for n in self.nodes if n.op != "output"}

    def facts(self, node):
        place = [c for field, c in CLASSES.items() if node in getattr(self.info, field)]
        said = {
            "class": place[0] if place else "unclaimed",
            "dist_from_bw": node.dist_from_bw,
            "weight": self.weight(node.name),
        }
        if said["class"] == "fw":
            said["fw_order"] = self.info.get_fw_order(node)
        return said


def size_of(node):
    return int(partitioners._size_of(node))


def storage_of(node):
    return node.meta["val"].untyped_storage()._cdata


def is_symbol(node):
    return isinstance(node.meta["val"], torch.SymInt)


def functions_of(module):
    return [n for n in module.graph.nodes if n.op == "call_function"]


def saved_said(node, inputs, results):
    return {
        "name": node.name,
        "bytes": size_of(node),
        "shape": [size_said(s) for s in node.meta["val"].shape],
        "dtype": str(node.meta["val"].dtype).removeprefix("torch."),
        "is_input": node.op == "placeholder",
        "is_user_output": node.name in results,
        "storage_of_input": storage_of(node) in inputs,
    }


def activation_bytes(saved, said, besides=()):
    """Of the memory of saved values that no input has, each storage once at its largest."""
    largest = {}
    for node, one in zip(saved, said):
        if not one["storage_of_input"] and storage_of(node) not in besides:
            at = storage_of(node)
            largest[at] = max(largest.get(at, 0), one["bytes"])
    return sum(largest.values())


def cut_said(forward, backward, n_outputs):
    outputs = forward.graph.output_node().args[0]
    kept, results = outputs[n_outputs:], [n for n in outputs[:n_outputs] if n is not None]
    saved = [n for n in kept if not is_symbol(n)]
    tensors = [n for n in forward.graph.nodes if n.op == "placeholder" and not is_symbol(n)]
    inputs = {storage_of(n) for n in tensors}
    said = [saved_said(n, inputs, {r.name for r in results}) for n in saved]
    of_results = {storage_of(n) for n in results if not is_symbol(n)}
    ops, again = functions_of(forward), functions_of(backward)
    of_forward = {n.name for n in ops}
    return {
        "saved": said,
        "n_saved": len(said),
        "saved_syms": [n.name for n in kept if is_symbol(n)],
        "saved_bytes": sum(s["bytes"] for s in said),
        "saved_bytes_non_input": sum(s["bytes"] for s in said if not s["is_input"]),
        "activation_bytes_unique": activation_bytes(saved, said),
        "activation_bytes_unique_not_output": activation_bytes(saved, said, of_results),
        "fw_ops": len(ops),
        "bw_ops": len(again),
        "recomputed": [n.name for n in again if n.name in of_forward],
        "bw_inputs": [n.name for n in backward.graph.nodes if n.op == "placeholder"],
        "bw_order": [n.name for n in again],
    }


def cut(recording, listed):
    """One result, and what the search knew of the nodes."""
    module, watch = graph_of(recording["joint_graph"]), Watch()
    partition = getattr(partitioners, PARTITIONERS[listed["partitioner"]])
    n_outputs, static = recording["num_fwd_outputs"], recording["static_lifetime_input_indices"]
    with functorch_config.patch(listed["flags"]), watch:
        forward, backward = partition(
            module, (), num_fwd_outputs=n_outputs, static_lifetime_input_indices=static
        )
    said = {"partitioner": listed["partitioner"], "flags": listed["flags"]}
    said |= cut_said(forward, backward, n_outputs)
    if watch.cuts:
        said["n_mincut_calls"], said["cut_value"] = len(watch.cuts), int(watch.cuts[-1])
        said["banned"] = watch.banned()
    return said, watch


PARTITIONERS = {
    "default": "default_partition",
    "min_cut": "min_cut_rematerialization_partition",
}
ONLY_OF_FIRST = ("bw_inputs", "bw_order")  # they say little of the other configurations


WHAT_IS_CUT = ("saved", "saved_syms", "recomputed", "fw_ops", "bw_ops")


def same_cut(one, other):
    return all(one[k] == other[k] for k in WHAT_IS_CUT)


def shortened(name, said, first, old):
    """A result as it is written: of one that is that of another configuration, only which."""
    if "torch_defect" in old:
        said["torch_defect"] = old["torch_defect"]
    if first and name != "min_cut" and said["partitioner"] == "min_cut":
        if same_cut(said, first):
            short = {k: said[k] for k in ("partitioner", "flags")} | {"same_as": "min_cut"}
            value = said.get("cut_value")
            return short if value == first["cut_value"] else short | {"cut_value": value}
        return {k: v for k, v in said.items() if k not in ONLY_OF_FIRST}
    return said


def record(old):
    new = dict(old)
    if "joint_graph" not in old:
        new |= joint_graph_of(old)
        new.setdefault("static_lifetime_input_indices", [])
    new["torch_version"] = torch.__version__.split("+")[0]
    results, first = {}, None
    for name, listed in old["results"].items():
        said, watch = cut(new, listed)
        results[name] = shortened(name, said, first, listed)
        if name == "min_cut":
            first = said
            new["node_info"] = watch.node_info()
    return new | {"results": results}


if __name__ == "__main__":
    options = recording_files.arguments(__doc__, "partitioner")
    sys.exit(0 if recording_files.make(options, record) else 1)
