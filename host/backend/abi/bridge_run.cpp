// Running and compiling back: single ops, the interpreter, other backends, sub-graphs.
#include "backend/abi/abi_args.h"
#include "backend/abi/bridge.h"
#include "backend/abi/compile_context.h"
#include "backend/abi/extensions.h"
#include "backend/abi/status.h"
#include "backend/compile/contract.h"
#include "core/dispatch.h"
#include "graph/extract.h"
#include "graph/interpret.h"
#include "ops/argument_types.h"
#include "ops/op_table.h"

#include <tenon/autograd.h>
#include <tenon/detail/leaves.h>
#include <tenon/grad_mode.h>

#include <deque>
#include <optional>

namespace tenon {

namespace {

// ---- single ops

tn_status* run_op(uint32_t op_id, const tn_arg* args, uint32_t n_args, tn_tensor* const* values,
                  tn_stream*, tn_tensor** out, uint32_t n_out) {
  return guarded([&] {
    require(op_id < op_count(), "run_op: op id {} is unknown", op_id);
    const OpEntry& op = entry_of(static_cast<OpId>(op_id));
    require(n_args <= op.n_args, "run_op: {} takes {} arguments, found {}", op.name, op.n_args,
            n_args);
    HostArguments given(args, n_args, values);
    if (n_args < op.n_args) given.add_defaults(op);
    std::span<Value> packed = given.values();
    for (uint32_t i = 0; i < op.n_args; ++i) require_fit(op.name, op.schema.args[i], packed[i]);
    Value results[8];
    bool list = op.schema.returns_list();
    dispatch(op, packed.data(), op.n_args, results, list ? 1 : op.n_returns);
    std::vector<Tensor> tensors;
    if (list) tensors = take<std::vector<Tensor>>(results[0]);
    for (uint32_t r = 0; !list && r < op.n_returns; ++r) {
      require(results[r].tag == Tag::tensor_owned || results[r].is_none(),
              "run_op: result {} of {} is not one tensor", r, op.name);
      tensors.push_back(take<Tensor>(results[r]));
    }
    require(n_out == tensors.size(), "run_op: {} gives {} results, room for {} was passed", op.name,
            tensors.size(), n_out);
    for (uint32_t r = 0; r < n_out; ++r) out[r] = give(std::move(tensors[r]));
  });
}

tn_status* run_op_in_mode(uint32_t op, int32_t mode, const tn_arg* args, uint32_t n_args,
                          tn_tensor* const* values, tn_stream* stream, tn_tensor** out,
                          uint32_t n_out) {
  if (mode < TN_GRAD_AS_CALLED || mode > TN_GRAD_ON)
    return make_status(TN_UNIMPLEMENTED, "run_op: the grad mode is unknown");
  std::optional<EnableGradGuard> guard;
  if (mode != TN_GRAD_AS_CALLED) guard.emplace(mode == TN_GRAD_ON);
  return run_op(op, args, n_args, values, stream, out, n_out);
}

const tn_grad_mode_api grad_mode_api = {
    .struct_size = sizeof(tn_grad_mode_api), ._r0 = 0, .run_op = run_op_in_mode};

const struct OfferGradMode {
  OfferGradMode() { add_extension(TN_GRAD_MODE_ID, TN_GRAD_MODE_VERSION, &grad_mode_api); }
} offer_grad_mode;

// ---- artifacts of the host for plugins

/// An artifact of the host (interpreter or another backend's) behind the ABI.
struct HostArtifact {
  tn_artifact abi;
  std::shared_ptr<Artifact> artifact;
};

tn_status* call_host_artifact(tn_artifact* a, tn_call* call) {
  return guarded([&] {
    for (uint32_t i = 0; i < call->n_inputs; ++i) check_alive(call->inputs[i]);
    detail::ResultTensors outputs;
    outputs.grow_to(call->n_outputs);
    KnownWhenFailed known(outputs.span(), call->outputs);
    auto** heads = reinterpret_cast<detail::TensorHead**>(call->inputs);
    bool steal = (call->flags & TN_CALL_STEAL_INPUTS) != 0;
    if (steal && is_counting_held())
      note_held(Held::tensor, -std::count_if(heads, heads + call->n_inputs,
                                             [](const auto* head) { return head != nullptr; }));
    static_cast<HostArtifact*>(a->self)->artifact->call(
        {heads, call->n_inputs}, {call->syms, call->n_syms}, outputs.span(), steal);
    for (uint32_t i = 0; i < call->n_outputs; ++i) call->outputs[i] = give(std::move(outputs[i]));
  });
}

const tn_artifact_api host_artifact_api = {
    .struct_size = sizeof(tn_artifact_api),
    .flags = TN_AF_STEALS_INPUTS,
    .call = call_host_artifact,
    .destroy =
        [](tn_artifact* a) {
          note_held(Held::artifact, -1);
          delete static_cast<HostArtifact*>(a->self);
        },
    .describe =
        [](tn_artifact* a, int32_t what, const tn_sink* sink) {
          return guarded([&] {
            std::string text = static_cast<HostArtifact*>(a->self)->artifact->describe(what);
            sink->write(sink->ctx, text.data(), text.size());
          });
        },
};

tn_artifact* wrap(std::shared_ptr<Artifact> artifact) {
  auto* host = new HostArtifact{{&host_artifact_api, nullptr}, std::move(artifact)};
  host->abi.self = host;
  note_held(Held::artifact, 1);
  return &host->abi;
}

tn_status* compile_with(tn_ctx* ctx, const tn_graph* g, tn_str backend, tn_str options,
                        tn_artifact** out) {
  return guarded([&] {
    const CompileRequest& ours = *ctx->request;
    auto graph = std::const_pointer_cast<Graph>(g->graph);
    CompileRequest request = graph == ours.graph ? ours : request_for_piece(ours, graph);
    request.options_toml = std::string(view_of(options));
    request.mode.clear();
    std::string name(view_of(backend));
    *out = wrap(compile_with_backend(name, request));
    g->follows_modes = true;
  });
}

tn_status* extract(tn_ctx* ctx, const tn_graph* g, const uint32_t* nodes, uint32_t n,
                   const tn_graph** sub, const uint32_t** outer_inputs,
                   const uint32_t** outer_outputs) {
  return guarded([&] {
    Extracted part = extract_nodes(*g->graph, {nodes, n});
    auto view = std::make_unique<tn_graph>(part.graph);
    // The lists live with the view, in its own storage.
    *outer_inputs = view->operand_lists.emplace_back(part.outer_inputs).data();
    *outer_outputs = view->operand_lists.emplace_back(part.outer_outputs).data();
    *sub = ctx->graphs.emplace_back(std::move(view)).get();
  });
}

}  // namespace

const tn_run_api run_api = {
    .struct_size = sizeof(tn_run_api),
    .run_op = run_op,
    .interpret =
        [](tn_ctx*, const tn_graph* g, tn_artifact** out) {
          return guarded([&] {
            *out = wrap(interpreter_artifact(g->graph));
            g->follows_modes = true;
          });
        },
    .compile_with = compile_with,
    .extract = extract,
};

}  // namespace tenon
