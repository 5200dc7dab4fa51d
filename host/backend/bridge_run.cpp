// Running and compiling back: single ops, the interpreter, other backends, sub-graphs.
#include "backend/bridge.h"
#include "backend/compile_context.h"
#include "backend/status.h"
#include "core/dispatch.h"
#include "graph/extract.h"
#include "graph/interpret.h"
#include "ops/op_table.h"

#include <deque>

namespace tenon {

namespace {

// ---- single ops

Value value_of_arg(const tn_arg& a, tn_tensor* const* values, std::deque<Tensor>& held,
                   std::deque<std::vector<Tensor>>& lists,
                   std::deque<std::vector<std::string_view>>& strings,
                   std::deque<std::vector<int64_t>>& ints) {
  switch (a.kind) {
    case TN_ARG_NONE:
      return {};
    case TN_ARG_VALUE:
      return Value::of(held.emplace_back(share_tensor(values[a.u.value])));
    case TN_ARG_VALUES: {
      auto& list = lists.emplace_back();
      for (uint32_t i = 0; i < a.count; ++i)
        list.push_back(a.u.values[i] == TN_NO_VALUE ? Tensor()
                                                    : share_tensor(values[a.u.values[i]]));
      return Value::of(TensorList(list));
    }
    case TN_ARG_INT:
      return Value::of(a.u.i);
    case TN_ARG_FLOAT:
      return Value::of(a.u.f);
    case TN_ARG_BOOL:
      return Value::of(a.u.i != 0);
    case TN_ARG_STRING:
      return Value::of(view_of(a.u.str));
    case TN_ARG_DTYPE:
      return Value::make(Tag::dtype, static_cast<uint64_t>(a.u.i));
    case TN_ARG_LAYOUT:
      return Value::make(Tag::layout, static_cast<uint64_t>(a.u.i));
    case TN_ARG_MEMORY_FORMAT:
      return Value::make(Tag::memory_format, static_cast<uint64_t>(a.u.i));
    case TN_ARG_DEVICE:
      return Value::of(Device(static_cast<DeviceType>(a.u.device[0]), a.u.device[1]));
    case TN_ARG_INTS:
      return Value::of(IntList(a.u.ints, a.count));
    case TN_ARG_FLOATS:
      return Value::of(DoubleList(a.u.floats, a.count));
    case TN_ARG_BOOLS:
      return Value::pointer(Tag::bools, a.u.bools, a.count);
    case TN_ARG_STRINGS: {
      auto& list = strings.emplace_back();
      for (uint32_t i = 0; i < a.count; ++i) list.push_back(view_of(a.u.strings[i]));
      return Value::of(StringList(list));
    }
    case TN_ARG_SYMINT:
    case TN_ARG_SYMINTS: {
      const tn_dim* dims = a.kind == TN_ARG_SYMINT ? &a.u.sym : a.u.syms;
      uint32_t n = a.kind == TN_ARG_SYMINT ? 1 : a.count;
      auto& list = ints.emplace_back();
      for (uint32_t i = 0; i < n; ++i) {
        require(dims[i].expr == TN_EXPR_STATIC,
                "run_op: a symbolic argument must be evaluated first, with sym->eval");
        list.push_back(dims[i].value);
      }
      return a.kind == TN_ARG_SYMINT ? Value::of(list[0]) : Value::of(IntList(list));
    }
    default:
      fail(ErrorCode::unsupported, "run_op: argument kind {} is unknown", a.kind);
  }
}

tn_status* run_op(uint32_t op_id, const tn_arg* args, uint32_t n_args, tn_tensor* const* values,
                  tn_stream*, tn_tensor** out, uint32_t n_out) {
  return guarded([&] {
    require(op_id < op_count(), "run_op: op id {} is unknown", op_id);
    const OpEntry& op = entry_of(static_cast<OpId>(op_id));
    require(n_args == op.n_args, "run_op: {} takes {} arguments, found {}", op.name, op.n_args,
            n_args);
    std::deque<Tensor> held;
    std::deque<std::vector<Tensor>> lists;
    std::deque<std::vector<std::string_view>> strings;
    std::deque<std::vector<int64_t>> ints;
    std::vector<Value> packed;
    for (uint32_t i = 0; i < n_args; ++i)
      packed.push_back(value_of_arg(args[i], values, held, lists, strings, ints));
    Value results[8];
    bool list = op.schema.returns_list();
    dispatch(op, packed.data(), n_args, results, list ? 1 : op.n_returns);
    std::vector<Tensor> tensors;
    if (list) tensors = take<std::vector<Tensor>>(results[0]);
    for (uint32_t r = 0; !list && r < op.n_returns; ++r) {
      require(!results[r].is_number(), "run_op: {} gives a number, not a tensor", op.name);
      tensors.push_back(take<Tensor>(results[r]));
    }
    require(n_out == tensors.size(), "run_op: {} gives {} results, room for {} was passed", op.name,
            tensors.size(), n_out);
    for (uint32_t r = 0; r < n_out; ++r) out[r] = give(std::move(tensors[r]));
  });
}

// ---- artifacts of the host for plugins

/// An artifact of the host (interpreter or another backend's) behind the ABI.
struct HostArtifact {
  tn_artifact abi;
  std::shared_ptr<Artifact> artifact;
};

tn_status* call_host_artifact(tn_artifact* a, tn_call* call) {
  return guarded([&] {
    std::vector<Tensor> outputs(call->n_outputs);
    auto** heads = reinterpret_cast<detail::TensorHead**>(call->inputs);
    static_cast<HostArtifact*>(a->self)->artifact->call({heads, call->n_inputs},
                                                        {call->syms, call->n_syms}, outputs,
                                                        (call->flags & TN_CALL_STEAL_INPUTS) != 0);
    for (uint32_t i = 0; i < call->n_outputs; ++i) call->outputs[i] = give(std::move(outputs[i]));
  });
}

const tn_artifact_api host_artifact_api = {
    .struct_size = sizeof(tn_artifact_api),
    .flags = TN_AF_STEALS_INPUTS,
    .call = call_host_artifact,
    .destroy = [](tn_artifact* a) { delete static_cast<HostArtifact*>(a->self); },
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
  return &host->abi;
}

tn_status* compile_with(tn_ctx* ctx, const tn_graph* g, tn_str backend, tn_str options,
                        tn_artifact** out) {
  return guarded([&] {
    thread_local std::vector<std::string> stack;
    std::string name(view_of(backend));
    require(
        name != ctx->backend && std::find(stack.begin(), stack.end(), name) == stack.end(),
        "compile_with: backend {} is already compiling this graph; a cycle of backends cannot end",
        name);
    require(stack.size() < 8, "compile_with: more than 8 backends call each other");
    CompileRequest request = *ctx->request;
    request.graph = std::const_pointer_cast<Graph>(g->graph);
    request.options_toml = std::string(view_of(options));
    stack.push_back(ctx->backend);
    struct Pop {
      std::vector<std::string>& s;
      ~Pop() { s.pop_back(); }
    } pop{stack};
    *out = wrap(compile_with_backend(name, request));
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
          return guarded([&] { *out = wrap(interpreter_artifact(g->graph)); });
        },
    .compile_with = compile_with,
    .extract = extract,
};

}  // namespace tenon
