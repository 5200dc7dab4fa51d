// The op table for plugins: names, schemas, formulas and decompositions.
#include "backend/abi/bridge.h"
#include "backend/abi/compile_context.h"
#include "backend/abi/status.h"
#include "core/dispatch.h"
#include "core/sym/shape_env.h"
#include "graph/record.h"
#include "ops/decompose.h"
#include "ops/op_table.h"
#include "ops/pointwise.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>

namespace tenon {

namespace {

const OpEntry& op_of(uint32_t id) {
  require(id < op_count(), "op id {} is unknown: there are {} ops", id, op_count());
  return entry_of(static_cast<OpId>(id));
}

/// The texts behind a tn_op_info; made once an op and kept for the life of the process.
struct OpTexts {
  std::vector<std::string> strings;
  std::vector<tn_op_arg> args, returns;
  std::vector<tn_str> sets;
  std::string schema;
};

std::string alias_text(const AliasInfo& alias) {
  if (alias.empty()) return "";
  std::string out = "(" + (alias.before.empty() ? "" : alias.before.front());
  return out + (alias.mutated ? "!)" : ")");
}

uint32_t flags_of(const SchemaArg& arg) {
  return (arg.kwarg_only ? uint32_t{TN_OA_KEYWORD_ONLY} : 0) |
         (arg.mutated() ? uint32_t{TN_OA_WRITTEN} : 0);
}

const OpTexts& texts_of(const OpEntry& op) {
  static std::mutex making;
  static auto* known = new std::map<const OpEntry*, OpTexts>;
  std::lock_guard lock(making);
  auto [at, added] = known->try_emplace(&op);
  OpTexts& t = at->second;
  if (!added) return t;
  t.strings.reserve(4 * (op.schema.args.size() + op.schema.returns.size()));
  auto keep = [&](std::string s) { return str_of(t.strings.emplace_back(std::move(s))); };
  for (const SchemaArg& a : op.schema.args)
    t.args.push_back({keep(a.name), keep(to_text(a.type)),
                      keep(a.has_default() ? to_text(a.default_value) : ""),
                      keep(alias_text(a.alias)), flags_of(a), 0, 0});
  for (const SchemaReturn& r : op.schema.returns)
    t.returns.push_back(
        {keep(r.name), keep(to_text(r.type)), keep(""), keep(alias_text(r.alias)), 0, 0, 0});
  if (op.def->decomp && !op.def->core) t.sets = {TN_STR("core_aten"), TN_STR("inductor")};
  if (decomposes_by_formula(op)) t.sets = {TN_STR("core_aten")};
  t.schema = to_text(op.schema);
  return t;
}

tn_status* info(uint32_t id, tn_op_info* inout) {
  return guarded([&] {
    const OpEntry& op = op_of(id);
    const OpTexts& texts = texts_of(op);
    tn_op_info full{};
    full.struct_size = inout->struct_size;
    full.n_args = static_cast<uint32_t>(texts.args.size());
    full.n_returns = static_cast<uint32_t>(texts.returns.size());
    full.n_decomposition_sets = static_cast<uint32_t>(texts.sets.size());
    full.tags = op.tags;
    full.name = str_of(op.name);
    full.schema = str_of(texts.schema);
    full.args = texts.args.data();
    full.returns = texts.returns.data();
    full.decomposition_sets = texts.sets.data();
    std::memcpy(inout, &full, std::min<size_t>(inout->struct_size, sizeof full));
  });
}

// ---- formulas

/// A recorded program in the layout of the ABI.
struct FormulaData {
  const ScalarProgram* program = nullptr;
  std::vector<uint32_t> input_args;
};
static_assert(sizeof(ScalarInstr) == sizeof(tn_instr));

int entry_for(const OpEntry& op, const tn_arg* args, uint32_t n_args) {
  const Formula& f = op.def->formula;
  if (f.choice == Formula::Choice::single) return 0;
  auto is_absent = [&](size_t i) {
    return args ? i >= n_args || args[i].kind == TN_ARG_NONE : default_of(op, i).is_none();
  };
  if (f.choice == Formula::Choice::by_presence) {
    unsigned present = 0, index = 0;
    for (size_t i = 0; i < op.schema.args.size(); ++i)
      if (op.schema.args[i].type.optional) present |= unsigned{!is_absent(i)} << index++;
    return f.find_present(present);
  }
  auto at = static_cast<size_t>(op.schema.find_arg(f.argument));
  if (is_absent(at)) return f.find("none");
  if (args) return f.find(view_of(args[at].u.str));
  return f.find(op.schema.args[at].default_value.text);
}

// Which argument each input of the formula is: tensors and numbers in schema order, absent ones
// left out.
std::vector<uint32_t> input_args(const OpEntry& op, const tn_arg* args, uint32_t n_args,
                                 uint32_t n_inputs) {
  std::vector<uint32_t> out;
  for (uint32_t i = 0; i < op.schema.args.size() && out.size() < n_inputs; ++i) {
    const SchemaType& type = op.schema.args[i].type;
    bool takes_part =
        !type.is_list && (type.base == BaseType::tensor || type.base == BaseType::scalar ||
                          type.base == BaseType::floating || type.base == BaseType::integer ||
                          type.base == BaseType::sym_int || type.base == BaseType::boolean);
    bool absent = args ? i < n_args && args[i].kind == TN_ARG_NONE
                       : type.optional && default_of(op, i).is_none();
    if (takes_part && !absent) out.push_back(i);
  }
  return out;
}

tn_status* op_formula(uint32_t id, const tn_arg* args, uint32_t n_args, int32_t part,
                      tn_formula* inout) {
  return guarded([&] {
    const OpEntry& op = op_of(id);
    int entry = part == TN_FP_POINTWISE && op.def->formula ? entry_for(op, args, n_args) : -1;
    if (entry < 0)
      throw BackendError(ErrorCode::unsupported, TN_NOT_FOUND, op.name + " has no such formula");
    static std::mutex making;
    static auto* known = new std::map<std::pair<const OpDef*, int>, FormulaData>;
    std::lock_guard lock(making);
    auto [at, added] = known->try_emplace({op.def, entry});
    FormulaData& data = at->second;
    if (added) {
      data.program = &pointwise_program(op, entry);
      data.input_args = input_args(op, args, n_args, data.program->n_inputs);
    }
    const ScalarProgram& program = *data.program;
    tn_formula full{};
    full.struct_size = inout->struct_size;
    full.n_inputs = program.n_inputs;
    full.n_outputs = static_cast<uint32_t>(program.outputs.size());
    full.n_instr = static_cast<uint32_t>(program.instr.size());
    full.instr = reinterpret_cast<const tn_instr*>(program.instr.data());
    full.outputs = program.outputs.data();
    full.input_args = data.input_args.data();
    full.input_dtypes = program.input_dtypes.data();
    bool to_float = op.def->promote == Promote::to_float ||
                    (op.def->promote == Promote::automatic &&
                     op.def->formula.entries[entry].formula.types == formula::floats);
    full.promote = to_float ? TN_PROMOTE_TO_FLOAT : TN_PROMOTE_SAME;
    std::memcpy(inout, &full, std::min<size_t>(inout->struct_size, sizeof full));
  });
}

// ---- decomposition of one node

std::vector<Tensor> results_of(const OpEntry& op, std::span<const Value> args) {
  Value values[8];
  bool list = op.schema.returns_list();
  dispatch(op, args.data(), static_cast<uint32_t>(args.size()), values, list ? 1 : op.n_returns);
  if (list) return take<std::vector<Tensor>>(values[0]);
  std::vector<Tensor> results;
  for (uint32_t r = 0; r < op.n_returns; ++r) results.push_back(take<Tensor>(values[r]));
  return results;
}

tn_status* decompose(tn_ctx* ctx, const tn_graph* g, uint32_t node_id, tn_str,
                     const tn_graph** out) {
  return guarded([&] {
    require(node_id < g->graph->nodes().size(), "node id {} is out of range", node_id);
    const Node& node = g->graph->node(node_id);
    const OpEntry& op = entry_of(node.op);
    if (!can_decompose(op))
      throw BackendError(ErrorCode::unsupported, TN_NOT_FOUND, op.name + " has no decomposition");
    GraphRecorder recorder(g->graph->shape_env ? g->graph->shape_env : ShapeEnv::make());
    recorder.opens = [&](const OpEntry& e) { return &e == &op; };
    std::map<ValueId, Tensor> inputs;
    std::vector<Tensor> results;
    {
      RecordScope scope(recorder);
      Graph::for_each_use(node, [&](ValueId v) {
        if (!inputs.contains(v))
          inputs[v] = recorder.add_input(g->graph->value(v).meta, g->graph->value(v).offset);
      });
      std::vector<Value> args(node.args.begin(), node.args.end());
      ArgumentLists lists;
      auto input = [&](ValueId v) { return Value::of(inputs[v]); };
      map_arguments(args, lists, input, keep_numbers);
      results = results_of(op, args);
    }
    *out = ctx->graphs.emplace_back(std::make_unique<tn_graph>(recorder.finish(results))).get();
  });
}

}  // namespace

const tn_ops_api ops_api = {
    .struct_size = sizeof(tn_ops_api),
    .count = [] { return static_cast<uint32_t>(op_count()); },
    .find =
        [](tn_str name) {
          const OpEntry* op = find_op(view_of(name));
          return op ? static_cast<uint32_t>(op->id) : TN_NO_VALUE;
        },
    .info = info,
    .has_kernel = [](uint32_t id, int32_t device_type, int32_t dtype) -> int32_t {
      if (id >= op_count() || !is_dtype(dtype)) return 0;
      if (device_type == TN_DEV_CPU) return 1;
      auto kernels = entry_of(static_cast<OpId>(id)).foreign_kernels();
      return std::ranges::any_of(kernels, [&](const ForeignKernel& k) {
        return k.device == static_cast<DeviceType>(device_type);
      });
    },
    .decompose = decompose,
    .formula = op_formula,
};

}  // namespace tenon
