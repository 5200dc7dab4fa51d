// The counter-based form of an op calls the op while its thread draws from the given state.
#include "ops/counter_based.h"

#include "core/error.h"
#include "core/random.h"
#include "core/tensor/tensor_impl.h"
#include "ops/op.h"

#include <tenon/ops/create.h>
#include <tenon/plugin.h>

#include <mutex>

namespace tenon {

namespace {

/// Leaked, as rows are.
struct CounterRow : OpDef {
  std::string text;
  const OpEntry* original = nullptr;
};

const OpEntry& original_of(const CallArgs& call) {
  return *static_cast<const CounterRow*>(call.op->def)->original;
}

CallArgs original_call(const CallArgs& call, Value* results) {
  return {&original_of(call), call.args + 2, results, call.n_args - 2, call.n_results - 1};
}

uint64_t word_of(const CallArgs& call, uint32_t arg, const char* name) {
  const Value& v = call.args[arg];
  bool fits =
      v.tag == Tag::tensor && v.as<Tensor>()->dtype() == Dtype::i64 && v.as<Tensor>()->dim() == 0;
  require(fits, "{}: expected {} to be an i64 tensor without dimensions", call.op->name, name);
  return static_cast<uint64_t>(*v.as<Tensor>()->data_ptr<int64_t>());
}

void run_counter_based(const CallArgs& call) {
  RngState state{word_of(call, 0, "seed"), word_of(call, 1, "offset")};
  CallArgs inner = original_call(call, call.results + 1);
  {
    DrawFrom drawing(state);
    BelowAutograd below;
    BelowAutocast as_given;
    dispatch(*inner.op, inner.args, inner.n_args, inner.results, inner.n_results);
  }
  call.results[0] = Value::own(scalar_tensor(static_cast<int64_t>(state.offset), Dtype::i64));
}

void metas_of_counter_based(const CallArgs& call, Metas& metas) {
  metas.add(contiguous_meta({}, Dtype::i64));
  Value results[8];
  CallArgs inner = original_call(call, results);
  FakeScope fakes;
  dispatch(*inner.op, inner.args, inner.n_args, results, inner.n_results);
  for (uint32_t r = 0; r < inner.n_results; ++r) metas.add(meta_of(take<Tensor>(results[r])));
}

std::string schema_text(const OpEntry& op) {
  const Schema& schema = op.schema;
  std::string text = op.def->schema;
  size_t open = text.find('('), arrow = text.rfind(" -> ");
  ensure(open != text.npos && arrow != text.npos, "a schema without arguments or results");
  std::string arguments = text.substr(open + 1, arrow - open - 2);
  std::string name = message("tenon::philox_{}_{}", schema.ns, schema.name);
  if (!schema.overload.empty()) name += "." + schema.overload;
  std::string out = name + "(Tensor seed, Tensor offset";
  if (!arguments.empty()) out += ", " + arguments;
  out += ") -> (Tensor";
  for (size_t r = 0; r < schema.returns.size(); ++r) out += ", Tensor";
  return out + ")";
}

}  // namespace

const OpEntry& counter_based_form(const OpEntry& op) {
  bool plain = !op.mutated_args && !op.schema.returns_list() && op.n_returns < 8;
  for (const SchemaReturn& r : op.schema.returns) plain = plain && r.type == SchemaType{};
  require(plain, ErrorCode::unsupported,
          "{} has no form with seed and offset: it writes an argument, or gives other results than "
          "single tensors",
          op.name);
  static std::mutex forms_mutex;
  std::lock_guard lock(forms_mutex);
  std::string text = schema_text(op);
  if (const OpEntry* known = find_op(parse_schema(text).canonical_name())) return *known;
  auto* row = new CounterRow;
  row->text = std::move(text);
  row->original = &op;
  row->schema = row->text.c_str();
  bool may_alias = (op.tags & TN_TAG_MAYBE_ALIAS) != 0;
  row->tags = may_alias ? OpTags::maybe_alias : OpTags::none;
  row->meta.metas = &metas_of_counter_based;
  row->eager.returns = &run_counter_based;
  row->vjp = nondiff;
  return add_op(row);
}

}  // namespace tenon
