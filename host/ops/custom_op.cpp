// Added ops: checks, and the row behind which their functions are called.
#include "ops/custom_op.h"

#include "config/flags.h"
#include "core/error.h"
#include "core/tensor/tensor_impl.h"
#include "ops/foreign_results.h"
#include "ops/pointwise.h"
#include "report/log.h"

#include <algorithm>
#include <atomic>
#include <mutex>

namespace tenon {

namespace {

/// The row of an added op; leaked, as rows are.
struct CustomRow : OpDef {
  CustomOp op;
  mutable std::atomic<bool> was_called{false}, has_drawn{false}, has_read_around{false};
};

const CustomRow& row_behind(const CallArgs& call) {
  return *static_cast<const CustomRow*>(call.op->def);
}
const CustomOp& op_behind(const CallArgs& call) { return row_behind(call).op; }

// ---- what the row's fields do

void metas_like(const CallArgs& call, Metas& metas) {
  const Value& like = call.args[*op_behind(call).like];
  require(like.tag == Tag::tensor, "{}: argument {} must be a tensor, found none", call.op->name,
          call.op->schema.args[*op_behind(call).like].name);
  for (uint32_t r = 0; r < call.op->n_returns; ++r) metas.add(tenon::like(*like.as<Tensor>()));
}

void run_meta_function(const CallArgs& call, Metas& metas) {
  op_behind(call).meta(call, metas);
  ensure(metas.size() == call.op->n_returns, "a meta function of an added op missed a result");
}

// The name of an argument, or the number of an earlier result, whose memory result `r` shares.
std::optional<std::string> alias_of_result(const CallArgs& call, uint32_t r) {
  auto tensor_of = [](const Value& v) {
    return reinterpret_cast<const TensorImpl*>(v.payload)->storage_ref.get();
  };
  const void* memory = tensor_of(call.results[r]);
  auto shares = [&](const Tensor& t) {
    return t.defined() && impl_of(t)->storage_ref.get() == memory;
  };
  for (uint32_t i = 0; i < call.n_args; ++i) {
    const Value& a = call.args[i];
    bool one = a.tag == Tag::tensor && shares(*a.as<Tensor>());
    bool listed =
        a.tag == Tag::tensors && std::any_of(a.as<Tensor>(), a.as<Tensor>() + a.count, shares);
    if (one || listed) return message("argument {}", call.op->schema.args[i].name);
  }
  for (uint32_t other = 0; other < r; ++other)
    if (call.results[other].tag == Tag::tensor_owned && tensor_of(call.results[other]) == memory)
      return message("result {}", other);
  return std::nullopt;
}

// Flags functorch.check_custom_op_aliasing and error_on_custom_op_aliasing, at the first call.
void check_aliases(const CallArgs& call) {
  const config::FunctorchFlags& flags = config::flags().functorch;
  if (!flags.check_custom_op_aliasing || row_behind(call).was_called.exchange(true)) return;
  for (uint32_t r = 0; r < call.n_results; ++r) {
    if (call.results[r].tag != Tag::tensor_owned || (r == 0 && call.op->returned_arg >= 0))
      continue;
    std::optional<std::string> other = alias_of_result(call, r);
    if (!other) continue;
    std::string text = message(
        "{}: result {} shares memory with {}, which its schema does not say and compiled code does "
        "not expect; return a clone",
        call.op->name, r, *other);
    if (flags.error_on_custom_op_aliasing) {
      for (uint32_t made = 0; made < call.n_results; ++made) drop(call.results[made]);
      row_behind(call).was_called = false;
      fail("{}", text);
    }
    report::log_line(report::LogLevel::warning, "ops", text);
  }
}

void run_kernel(const CallArgs& call) {
  op_behind(call).kernel(call);
  if (std::optional<std::string> problem = foreign_result_problem(call)) {
    drop_results(call);
    throw BackendError(
        ErrorCode::backend_call_failed, TN_INTERNAL,
        message("{}: {}; its kernel and its shape function disagree, both added by {}",
                call.op->name, *problem, op_behind(call).owner));
  }
  if (!row_behind(call).was_called.load(std::memory_order_relaxed)) check_aliases(call);
}

void run_decomp(const CallArgs& call) { op_behind(call).decomp(call); }

// ---- checks

std::mutex ops_mutex;

void check_names(const Schema& schema, const CustomOp& op) {
  for (std::string_view ours : {"aten", "prim", "prims", "tenon", "inductor"})
    require(schema.ns != ours, "op {}: the namespace {} is Tenon's; choose one of your own",
            schema.canonical_name(), ours);
  const OpEntry* known = find_op(schema.canonical_name());
  if (!known) return;
  const CustomOp* other = custom_op_of(*known);
  fail(
      "op {}: the name is taken, by {}; choose another one, or another namespace than {} (added by "
      "{})",
      known->name, other ? other->owner : "Tenon", schema.ns, op.owner);
}

void check_results(const Schema& schema) {
  std::string name = schema.canonical_name();
  require(schema.returns.size() <= 8, "op {}: at most 8 results, found {}", name,
          schema.returns.size());
  for (size_t r = 0; r < schema.returns.size(); ++r) {
    const SchemaReturn& result = schema.returns[r];
    require(result.type == SchemaType{}, "op {}: result {} is {}; an added op gives tensors", name,
            r, to_text(result.type));
    require(
        result.alias.empty() || (r == 0 && schema.returned_arg(0) >= 0 &&
                                 schema.args[schema.returned_arg(0)].mutated()),
        "op {}: result {} is marked as sharing memory; an added op gives new tensors, or as its "
        "first result the argument that it writes",
        name, r);
  }
}

// Tensors and numbers are the inputs of a formula, in schema order.
size_t count_formula_inputs(const Schema& schema) {
  for (const SchemaArg& arg : schema.args) {
    bool is_input = !arg.type.is_list && !arg.type.optional && !arg.mutated() &&
                    (arg.type.base <= BaseType::boolean);
    require(is_input,
            "op {}: a formula is of tensors and numbers that are always given, argument {} is {}",
            schema.canonical_name(), arg.name, to_text(arg.type));
  }
  return schema.args.size();
}

void check_formula(const Schema& schema, const CustomOp& op) {
  std::string name = schema.canonical_name();
  const ScalarProgram& program = *op.formula;
  check_program(program);
  size_t inputs = count_formula_inputs(schema);
  require(inputs <= formula::max_inputs, "op {}: a formula has at most {} inputs, found {}", name,
          formula::max_inputs, inputs);
  require(program.n_inputs == inputs, "op {}: its schema has {} arguments, its formula {} inputs",
          name, inputs, program.n_inputs);
  require(program.outputs.size() == schema.returns.size() && !program.outputs.empty(),
          "op {}: its schema has {} results, its formula {}", name, schema.returns.size(),
          program.outputs.size());
}

void check_parts(const Schema& schema, const CustomOp& op) {
  std::string name = schema.canonical_name();
  require(op.kernel || op.formula || op.decomp,
          "op {}: nothing runs it; give it a kernel, a formula or a decomposition", name);
  require(op.meta || op.like || op.formula || op.decomp || schema.returns.empty(),
          "op {}: nothing says what its results look like; give it a meta function, the argument "
          "that they are like, a formula or a decomposition",
          name);
  if (op.like)
    require(*op.like < schema.args.size() && schema.args[*op.like].type == SchemaType{},
            "op {}: its results are to be like argument {}, which is not a tensor of the schema",
            name, *op.like);
}

formula::PointwiseFormula formula_of(const CustomOp& op) {
  formula::PointwiseFormula f;
  f.types = op.formula_types;
  f.n_inputs = static_cast<uint8_t>(op.formula->n_inputs);
  for (uint32_t i = 0; i < op.formula->n_inputs; ++i)
    if (op.formula->input_dtypes[i] != compute_type) f.mask_inputs |= 1u << i;
  return f;
}

void fill_row(CustomRow& row, const Schema& schema) {
  const CustomOp& op = row.op;
  row.custom = &op;
  row.schema = op.schema.c_str();
  row.tags = op.tags;
  // What gives nothing and writes nothing is there for its effect.
  if (schema.returns.empty() && std::ranges::none_of(schema.args, &SchemaArg::mutated))
    row.tags = row.tags | OpTags::side_effect;
  if (op.formula) row.formula = Formula(formula_of(op));
  if (op.meta)
    row.meta.metas = &run_meta_function;
  else if (op.like)
    row.meta.metas = &metas_like;
  else if (schema.returns.empty())
    row.meta.metas = [](const CallArgs&, Metas&) {};
  if (op.kernel) row.eager.returns = &run_kernel;
  if (op.decomp) row.decomp.call = &run_decomp;
}

}  // namespace

const OpEntry& add_custom_op(CustomOp op) {
  Schema schema = parse_schema(op.schema);
  check_names(schema, op);
  check_results(schema);
  if (op.formula) check_formula(schema, op);
  check_parts(schema, op);
  std::lock_guard lock(ops_mutex);
  auto row = std::make_unique<CustomRow>();
  row->op = std::move(op);
  fill_row(*row, schema);
  const OpEntry& added = add_op(row.get(), [&](const OpEntry& entry) {
    if (row->op.formula) set_pointwise_program(entry, *row->op.formula);
  });
  row.release();
  return added;
}

const CustomOp* custom_op_of(const OpEntry& op) { return op.def ? op.def->custom : nullptr; }

void note_drawing_parts(const OpEntry& op) {
  static_cast<const CustomRow*>(op.def)->has_drawn.store(true, std::memory_order_relaxed);
}

bool has_drawing_parts(const OpEntry& op) {
  return custom_op_of(op) &&
         static_cast<const CustomRow*>(op.def)->has_drawn.load(std::memory_order_relaxed);
}

void note_reading_around(const OpEntry& op) {
  static_cast<const CustomRow*>(op.def)->has_read_around.store(true, std::memory_order_relaxed);
}

bool is_traced_through(const OpEntry& op) {
  const CustomOp* added = custom_op_of(op);
  if (!added) return false;
  if (static_cast<const CustomRow*>(op.def)->has_read_around.load(std::memory_order_relaxed))
    return true;
  if (!added->seen_through) return false;
  const auto& listed = config::flags().dynamo.allowed_functions_module_string_ignorelist;
  return std::ranges::any_of(listed, [&](const std::string& ns) {
    return std::string_view(op.name).starts_with(ns + ".");
  });
}

}  // namespace tenon
