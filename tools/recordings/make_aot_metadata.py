#!/usr/bin/env python3
"""Records what AOTAutograd finds out about functions that write or alias their inputs, for
`aot_metadata_recordings`.

The functions stand here, in CASES; the same ones in C++ stand in
tests/recordings/aot_metadata_test.cpp, under the same names. A recording gives `name`, `note`,
`keep_inference_input_mutations` and `flags`; the script writes everything else anew.

    make_aot_metadata.py recordings/reference/aot_metadata              writes cases.json
    make_aot_metadata.py --compare recordings/reference/aot_metadata    what is other by now

Needs torch 2.13. Neither the product nor its tests run this.
"""

import sys
import torch
import torch._functorch.config as functorch_config
from torch._functorch.aot_autograd import aot_function, make_boxed_compiler
from torch._functorch.partitioners import default_partition
from torch._guards import TracingContext, tracing
from torch._subclasses.fake_tensor import FakeTensorMode
import recording_files

# ---- inputs


def matrix():
    return torch.arange(6.0).reshape(2, 3) + 0.5


def leaf():
    return matrix().requires_grad_()


def made():
    return leaf() * 1.0


def one(make):
    return lambda: (make(),)


def twice(make):
    return lambda: (make(),) * 2


def with_view(make, view):
    def inputs():
        x = make()
        return x, view(x)

    return inputs


def three_rows():
    return (torch.arange(6.0).reshape(3, 2) + 0.5).requires_grad_()


def halves():
    x = torch.arange(8.0)
    return x[:4], x[4:]


# ---- functions


def written(x):
    x.mul_(2)
    return x + 1


def restrided(x):
    x.t_()
    return x * 3


def written_and_restrided(x):
    x.t_()
    x.mul_(2)
    return x + 1


def written_without_grad(x):
    with torch.no_grad():
        x.mul_(2)
    return x + 1


def written_through_detach(x):
    x.detach().mul_(2)
    return x + 1


def two_views(x):
    y = x * 2
    return y.view(-1), y.t()


def base_and_view(x):
    y = x * 2
    return y, y.view(-1)


def non_differentiable(x):
    y = x * 2
    return y, y.detach(), y.argmax()


def first_written_then_added(a, b):
    a.mul_(2)
    return a + b


def first_written(a, b):
    a.mul_(2)
    return b + 1


def first_written_of_views(a, b):
    a.mul_(2)
    return a + b.reshape(2, 3)


def row_written(x, y):
    x[0].mul_(10)
    return x + y


def parts_of_copy_written(x):
    y = x.clone()
    y.select(1, 1).copy_(torch.zeros(2))
    y.view(-1).select(0, 0).add_(5)
    return y


def sine_of_sine(x):
    return x.sin().sin().sum()


CASES = {
    "mutate_data_inference_epilogue": (written, one(matrix)),
    "mutate_data_inference_in_graph": (written, one(matrix)),
    "mutate_data_training_nonleaf": (written, one(made)),
    "mutate_metadata": (restrided, one(matrix)),
    "mutate_metadata_training": (restrided, one(made)),
    "mutate_data_and_metadata": (written_and_restrided, one(matrix)),
    "mutate_leaf_under_no_grad": (written_without_grad, one(leaf)),
    "mutate_hidden_by_detach": (written_through_detach, one(leaf)),
    "out_alias_of_input": (lambda x: x.t(), one(leaf)),
    "out_is_input": (lambda x: (x, x + 1), one(leaf)),
    "out_view_of_intermediate_single": (lambda x: (x * 2).view(-1), one(leaf)),
    "out_two_views_of_intermediate": (two_views, one(leaf)),
    "out_base_and_view": (base_and_view, one(leaf)),
    "out_multi_output_view": (lambda x: (x * 2).unbind(0), one(three_rows)),
    "out_non_differentiable": (non_differentiable, one(leaf)),
    "dup_inputs_no_mutation": (lambda a, b: a * b, twice(leaf)),
    "dup_inputs_mutated": (first_written_then_added, twice(matrix)),
    "synthetic_base": (first_written, with_view(matrix, lambda x: x.view(-1))),
    "false_aliasing": (first_written, halves),
    "synthetic_base_non_diff_views_training": (
        first_written_of_views,
        with_view(made, lambda x: x.detach().view(-1)),
    ),
    "inplace_on_view": (row_written, lambda: (matrix(), matrix())),
    "inplace_on_view_intermediate": (parts_of_copy_written, one(matrix)),
    "tangent_layout_contiguous": (lambda x: x * 2, one(leaf)),
    "tangent_layout_transposed_out": (
        lambda x: (x * 2).t().clone(memory_format=torch.preserve_format),
        one(leaf),
    ),
    "view_replay_off": (lambda x: x.t().unsqueeze(0), one(leaf)),
    "view_replay_on": (lambda x: x.t().unsqueeze(0), one(leaf)),
    "donated_retain_graph": (sine_of_sine, one(leaf)),
    "double_backward": (sine_of_sine, one(leaf)),
    "rng_functionalize_cpu": (lambda x: x * torch.rand_like(x), one(leaf)),
    "partial_tangents": (lambda x: (x * 2, x * 3), one(leaf)),
}


BACKWARD = {
    "donated_retain_graph": {"retain_graph": True},
    "double_backward": {"create_graph": True},
}


# ---- running one


def lines_of(graph_module):
    """The code of a graph, without what frees values."""
    code = (line.split(";")[0].strip() for line in graph_module.code.splitlines())
    return [line for line in code if line and not line.startswith("import")]


class Graphs:
    """The graphs of one compile."""

    def __init__(self):
        self.found = {}

    def joint(self, module, inputs, **kwargs):
        self.found["joint"] = lines_of(module)
        return default_partition(module, inputs, **kwargs)

    def compiler(self, name):
        def keep(module, _):
            self.found[name] = lines_of(module)
            return make_boxed_compiler(lambda m, _: m)(module, _)

        return keep


def as_tuple(outputs):
    return tuple(outputs) if isinstance(outputs, (tuple, list)) else (outputs,)


def input_said(info):
    fields = (
        "is_leaf",
        "mutates_data",
        "mutates_metadata",
        "mutations_hidden_from_autograd",
        "mutations_under_no_grad_or_inference_mode",
        "mutates_storage_metadata",
        "requires_grad",
    )
    said = {field: getattr(info, field) for field in fields}
    return said | {"mutation_type": info.mutation_type.name}


def output_said(info):
    sequence = info.view_meta_sequence
    views = sequence and ", ".join(view_name(m) for m in sequence.sequence)
    return {
        "output_type": info.output_type.name,
        "base_idx": info.base_idx,
        "requires_grad": info.requires_grad,
        "requires_grad_for_backward": info.requires_grad_for_backward,
        "dynamic_dims": sorted(info.dynamic_dims or ()),
        "view_meta": sequence and f"ViewMetaSequence({views})",
    }


def view_name(meta):
    return type(meta).__name__.removesuffix("_ViewMeta")


def metadata_said(meta):
    return {
        "input_info": [input_said(i) for i in meta.input_info],
        "output_info": [output_said(o) for o in meta.output_info],
        "num_intermediate_bases": meta.num_intermediate_bases,
        "mutated_inp_runtime_indices": list(meta.mutated_inp_runtime_indices),
        "num_forward_returns": meta.num_forward_returns,
        "bw_donated_idxs": meta.bw_donated_idxs,
    }


def is_same(eager, compiled):
    return torch.equal(eager, compiled) and eager._is_view() == compiled._is_view()


def node_name(tensor):
    return tensor.grad_fn and tensor.grad_fn.name()


def gradient_said(name, inputs, outputs):
    """What is looked at beside the metadata, where a case is about tangents."""
    if name == "tangent_layout_contiguous":
        tangent = torch.ones(3, 2).t()
        outputs[0].backward(tangent)
        return {"tangent_given_stride": list(tangent.stride())}
    if name == "partial_tangents":
        outputs[0].sum().backward()
        return {"grad_x": inputs[0].grad.flatten().tolist()}
    differentiable = [o for o in outputs if o.requires_grad and o.grad_fn]
    if differentiable:
        sum(o.sum() for o in differentiable).backward(**BACKWARD.get(name, {}))
    return {}


def run(name, keep):
    function, make = CASES[name]
    eager_inputs, inputs, graphs = make(), make(), Graphs()
    eager = as_tuple(function(*eager_inputs))
    compiled = aot_function(
        function,
        graphs.compiler("forward"),
        graphs.compiler("backward"),
        partition_fn=graphs.joint,
        keep_inference_input_mutations=keep,
    )
    with tracing(TracingContext(FakeTensorMode())) as context:
        outputs = as_tuple(compiled(*inputs))
        meta = context.fw_metadata
    said = {
        "outputs_match_eager": [is_same(a, b) for a, b in zip(eager, outputs)],
        "inputs_match_eager": [torch.equal(a, b) for a, b in zip(eager_inputs, inputs)],
        "output_grad_fn": [node_name(o) for o in outputs],
    }
    said |= gradient_said(name, inputs, outputs) | metadata_said(meta)
    order = ("joint", "forward", "backward")
    return said | {k: graphs.found[k] for k in order if k in graphs.found}


GIVEN = ("name", "note", "keep_inference_input_mutations", "flags")


def record_case(old):
    said = {k: old[k] for k in GIVEN}
    if old["name"] not in CASES:
        raise SystemExit(f"{old['name']}: no function stands here for it; add it to CASES")
    with functorch_config.patch(old["flags"]):
        try:
            return said | run(old["name"], old["keep_inference_input_mutations"])
        except (AssertionError, RuntimeError) as error:
            return said | {"error": f"{type(error).__name__}: {error}"}


def record(old):
    version = torch.__version__.split("+")[0]
    return old | {"torch_version": version, "cases": [record_case(c) for c in old["cases"]]}


if __name__ == "__main__":
    options = recording_files.arguments(__doc__, "aot_metadata")
    sys.exit(0 if recording_files.make(options, record) else 1)
