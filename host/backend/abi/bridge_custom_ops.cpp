// The extension "tenon.custom_ops": ops of plugins become rows of the op table.
#include "autograd/vjp_plan.h"
#include "backend/abi/abi_args.h"
#include "backend/abi/bridge.h"
#include "backend/abi/extensions.h"
#include "backend/abi/graph_view.h"
#include "backend/abi/status.h"
#include "backend/catalog.h"
#include "backend/life/load.h"
#include "backend/life/shutdown.h"
#include "core/sym/shape_env.h"
#include "ops/custom_op.h"
#include "ops/shapes.h"
#include "report/log.h"

#include <tenon/custom_ops.h>

#include <cstring>

namespace tenon {

namespace {

/// What an added op keeps of its definition.
struct OpFunctions {
  std::string name;
  tn_op_def def{};

  /// `f()`, which calls `function` of the plugin.
  template <class Function, class F>
  void call(Function function, std::string_view what, F&& f) const {
    const LoadedPlugin* plugin = owner.load(std::memory_order_relaxed);
    if (!plugin) owner = plugin = owner_of_code(reinterpret_cast<const void*>(function));
    tn_status* status = plugin             ? call_plugin(plugin->net, what, f)
                        : is_gate_closed() ? status_of_closed_gate()
                                           : f();
    if (status) throw_of_call(status, message("{} of op {}", what, name));
  }
  /// A tensor that the plugin gave.
  Tensor take(tn_tensor* t) const {
    const LoadedPlugin* plugin = owner.load(std::memory_order_relaxed);
    if (plugin && t && is_counting_held()) plugin->net.life().add_held(Held::tensor, -1);
    return take_tensor(t);
  }
  mutable std::atomic<const LoadedPlugin*> owner{nullptr};  ///< known at the first call
};

// ---- arguments

/// A call's arguments for a function of a plugin; symbolic numbers are fixed to their examples,
/// which guards them.
class PluginArguments {
 public:
  explicit PluginArguments(const CallArgs& call)
      : args_(concrete(call)), abi_(args_.data(), size()) {}
  const tn_arg* args() const { return abi_.args(); }
  uint32_t size() const { return static_cast<uint32_t>(args_.size()); }
  tn_tensor* const* values() const { return abi_.values(); }

 private:
  std::vector<Value> concrete(const CallArgs& call) {
    std::vector<Value> out(call.args, call.args + call.n_args);
    for (Value& a : out) {
      if (a.tag != Tag::ints) continue;
      auto& list = ints_.emplace_back();
      for (uint32_t i = 0; i < a.count; ++i) list.push_back(a.as<SymInt>()[i].guard_int());
      a = Value::of(IntList(list));
    }
    return out;
  }
  std::deque<std::vector<int64_t>> ints_;
  std::vector<Value> args_;
  AbiArguments abi_;
};

void run(const OpFunctions& f, tn_status* (*function)(void*, tn_op_call*), std::string_view what,
         const CallArgs& call) {
  PluginArguments args(call);
  tn_tensor* out[8] = {};
  tn_op_call c{sizeof(tn_op_call),
               static_cast<uint32_t>(call.op->id),
               args.size(),
               call.n_results,
               args.args(),
               args.values(),
               out,
               nullptr};
  f.call(function, what, [&] { return function(f.def.self, &c); });
  for (uint32_t i = 0; i < call.n_results; ++i) call.results[i] = Value::own(f.take(out[i]));
}

// One for each tensor, there or not, and for each element of a list.
size_t count_gradients(const CallArgs& call) {
  size_t n = 0;
  for (uint32_t i = 0; i < call.n_args; ++i) {
    const SchemaType& type = call.op->schema.args[i].type;
    if (type.base != BaseType::tensor) continue;
    n += call.args[i].tag == Tag::tensors ? call.args[i].count : !type.is_list;
  }
  return n;
}

std::vector<Tensor> derive(const OpFunctions& f, const CallArgs& call,
                           std::span<const Tensor> results, std::span<const Tensor> grads) {
  PluginArguments args(call);
  std::vector<tn_tensor*> result_heads, grad_heads;
  for (const Tensor& t : results) result_heads.push_back(t.head());
  for (const Tensor& t : grads) grad_heads.push_back(t.head());
  std::vector<tn_tensor*> out(count_gradients(call));
  tn_vjp_call c{sizeof(tn_vjp_call),
                static_cast<uint32_t>(call.op->id),
                args.size(),
                static_cast<uint32_t>(results.size()),
                static_cast<uint32_t>(out.size()),
                0,
                args.args(),
                args.values(),
                result_heads.data(),
                grad_heads.data(),
                out.data()};
  f.call(f.def.vjp, "the derivative", [&] { return f.def.vjp(f.def.self, &c); });
  std::vector<Tensor> gradients;
  for (tn_tensor* t : out) gradients.push_back(f.take(t));
  return gradients;
}

// ---- meta functions

// The call as a graph of one node, whose expressions the plugin may use.
std::shared_ptr<Graph> graph_of_call(const CallArgs& call) {
  auto graph = std::make_shared<Graph>();
  ShapeEnv* env = current_shape_env();
  graph->shape_env =
      env ? std::shared_ptr<ShapeEnv>(std::shared_ptr<void>(), env) : ShapeEnv::make();
  auto input = [&](const Tensor& t) {
    GraphValue value;
    value.meta = meta_of(t);
    value.offset = sym_offset_of(t);
    return graph->add_input(std::move(value));
  };
  std::vector<Value> args(call.args, call.args + call.n_args);
  ArgumentLists lists;
  map_arguments(args, lists, input, keep_numbers);
  graph->add_node(call.op->id, args, {});
  return graph;
}

struct MetaResults {
  const tn_graph& view;
  std::vector<TensorMeta> metas;
  Device device;
};

Dims dims_from(const tn_graph& view, const tn_dim* dims, int32_t n) {
  Dims out;
  for (int32_t i = 0; i < n; ++i)
    out.push_back(dims[i].expr == TN_EXPR_STATIC ? SymInt(dims[i].value)
                                                 : as_sym_int(view.expr(dims[i].expr)));
  return out;
}

tn_status* set_result(tn_meta_call* c, uint32_t i, int32_t dtype, const tn_dim* sizes,
                      const tn_dim* strides, int32_t ndim) {
  return guarded([&] {
    auto& results = *static_cast<MetaResults*>(c->host_data);
    require(i < results.metas.size(), "result {} does not exist: the op has {}", i,
            results.metas.size());
    require(is_dtype(dtype), "dtype number {} is unknown", dtype);
    require(ndim >= 0 && ndim <= 64 && (ndim == 0 || sizes),
            "a result has 0 to 64 dimensions, found {}", ndim);
    Dims dims = dims_from(results.view, sizes, ndim);
    for (SymInt size : dims)
      require(size.is_symbolic() || size.word() >= 0, "size {} is negative", size);
    TensorMeta meta = contiguous_meta(list_of(dims), static_cast<Dtype>(dtype), results.device);
    if (strides) meta.strides = dims_from(results.view, strides, ndim);
    results.metas[i] = std::move(meta);
    results.metas[i].defined = true;
  });
}

void run_meta_function(const OpFunctions& f, const CallArgs& call, Metas& metas) {
  tn_graph view(graph_of_call(call));
  MetaResults results{view, std::vector<TensorMeta>(call.op->n_returns), kCPU};
  for (TensorMeta& m : results.metas) m.defined = false;
  for (uint32_t i = 0; i < call.n_args; ++i)
    if (call.args[i].tag == Tag::tensor) {
      results.device = call.args[i].as<Tensor>()->device();
      break;
    }
  tn_meta_call c{sizeof(tn_meta_call),
                 static_cast<uint32_t>(call.op->id),
                 call.op->n_returns,
                 0,
                 &view,
                 &results,
                 &set_result};
  f.call(f.def.meta, "the meta function", [&] { return f.def.meta(f.def.self, &c); });
  for (uint32_t r = 0; r < call.op->n_returns; ++r) {
    require(results.metas[r].defined, "the meta function of op {} did not tell result {}", f.name,
            r);
    metas.add(std::move(results.metas[r]));
  }
}

// ---- adding

ScalarProgram program_of(const tn_formula& given) {
  tn_formula f{};
  std::memcpy(&f, &given, std::min<size_t>(given.struct_size, sizeof f));
  ScalarProgram program;
  program.n_inputs = f.n_inputs;
  program.input_dtypes.assign(f.n_inputs, compute_type);
  if (f.input_dtypes) program.input_dtypes.assign(f.input_dtypes, f.input_dtypes + f.n_inputs);
  const auto* instr = reinterpret_cast<const ScalarInstr*>(f.instr);
  program.instr.assign(instr, instr + f.n_instr);
  program.outputs.assign(f.outputs, f.outputs + f.n_outputs);
  return program;
}

CustomOp op_from(const tn_op_def& def) {
  CustomOp op;
  op.schema = std::string(view_of(def.schema));
  op.owner = message("plugin {}", plugin_being_loaded().value_or("of unknown name"));
  op.tags = static_cast<OpTags>(def.tags);
  op.pt2_compliant = def.flags & TN_OP_PT2_COMPLIANT;
  if (def.formula) op.formula = program_of(*def.formula);
  if (def.formula_types) op.formula_types = static_cast<formula::Types>(def.formula_types & 7);
  if (def.flags & TN_OP_LIKE) op.like = def.like_arg;
  // Kept for good, like the op.
  auto* f = new OpFunctions;
  f->name = parse_schema(op.schema).canonical_name();
  f->def = def;
  if (def.meta) op.meta = [f](const CallArgs& c, Metas& m) { run_meta_function(*f, c, m); };
  if (def.kernel) op.kernel = [f](const CallArgs& c) { run(*f, f->def.kernel, "the kernel", c); };
  if (def.decompose)
    op.decomp = [f](const CallArgs& c) { run(*f, f->def.decompose, "the decomposition", c); };
  if (def.vjp)
    op.vjp = [f](const CallArgs& c, std::span<const Tensor> results,
                 std::span<const Tensor> grads) { return derive(*f, c, results, grads); };
  return op;
}

tn_status* add(const tn_op_def* given, uint32_t* id) {
  return guarded([&] {
    require(given && given->struct_size >= offsetof(tn_op_def, formula),
            "an op's definition is null or too short");
    tn_op_def def{};
    std::memcpy(&def, given, std::min<size_t>(given->struct_size, sizeof def));
    require(def.flags >> 2 == 0, "flags {} of an op are unknown to this host", def.flags);
    std::string name = parse_schema(view_of(def.schema)).canonical_name();
    if (const OpEntry* known = find_op(name)) {
      const CustomOp* other = custom_op_of(*known);
      throw BackendError(ErrorCode::plugin, TN_ALREADY_EXISTS,
                         message("op {}: the name is taken, by {}; choose another namespace", name,
                                 other ? other->owner : "Tenon"));
    }
    *id = static_cast<uint32_t>(add_custom_op(op_from(def)).id);
  });
}

const tn_custom_ops_api custom_ops_api = {sizeof(tn_custom_ops_api), 0, &add};

// ---- plugins that declare an op are loaded when somebody names it

bool find_elsewhere(std::string_view name) {
  if (derive_op_named(name)) return true;
  if (plugin_being_loaded()) return false;  // it looks for its own
  try {
    FoundPluginPtr plugin = plugin_catalog().find_op(name);
    if (!plugin) return false;
    load_plugin(plugin_catalog(), plugin);
    return true;
  } catch (const Error& e) {
    report::warn_once(
        message("op {}", name), "backend",
        message("op {} is declared by a plugin that cannot be used: {}", name, e.what()));
    return false;
  }
}

const struct OfferCustomOps {
  OfferCustomOps() {
    add_extension(TN_CUSTOM_OPS_ID, TN_CUSTOM_OPS_VERSION, &custom_ops_api);
    missing_op_slot = &find_elsewhere;
  }
} offer_custom_ops;

}  // namespace

}  // namespace tenon
