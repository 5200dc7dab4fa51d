// The form calls the op with copies of what it writes.
#include "ops/forms/functional_form.h"

#include "core/error.h"
#include "core/tensor/tensor_impl.h"
#include "ops/op.h"

#include <tenon/plugin.h>

#include <algorithm>
#include <bit>
#include <mutex>

namespace tenon {

namespace {

constexpr std::string_view prefix = "functional_";
constexpr uint32_t most_values = 16;

/// Leaked, as rows are.
struct FunctionalRow : OpDef {
  std::string text;
  const OpEntry* original = nullptr;
};

const OpEntry& original_of(const CallArgs& call) {
  return *static_cast<const FunctionalRow*>(call.op->def)->original;
}

/// Results of the form, in order: f(index, value).
template <class F>
void run_on_copies(const CallArgs& call, const F& give) {
  const OpEntry& op = original_of(call);
  Value args[most_values], results[8];
  std::vector<Tensor> copies;
  copies.reserve(op.n_args);
  for (uint32_t i = 0; i < op.n_args; ++i) {
    args[i] = call.args[i];
    if (!(op.mutated_args >> i & 1)) continue;
    bool is_given = call.args[i].tag == Tag::tensor && call.args[i].as<Tensor>()->defined();
    copies.push_back(is_given ? call.args[i].as<Tensor>()->clone() : Tensor());
    if (is_given) args[i] = Value::of(copies.back());
  }
  dispatch(op, args, op.n_args, results, op.n_returns);
  uint32_t n = 0;
  for (uint32_t r = 0; r < op.n_returns; ++r) {
    Tensor result = take<Tensor>(results[r]);
    if (op.schema.returned_arg(r) < 0) give(n++, std::move(result));
  }
  for (Tensor& copy : copies) give(n++, std::move(copy));
}

void run_functional(const CallArgs& call) {
  BelowAutograd below;
  BelowAutocast as_given;
  run_on_copies(call, [&](uint32_t r, Tensor t) { call.results[r] = Value::own(std::move(t)); });
}

// An argument that was not given has no new content.
void metas_of_functional(const CallArgs& call, Metas& metas) {
  FakeScope fakes;
  run_on_copies(call, [&](uint32_t, const Tensor& t) {
    if (t.defined())
      metas.add(meta_of(t));
    else
      metas.add({}).defined = false;
  });
}

Schema functional_schema(const OpEntry& op) {
  Schema out = op.schema;
  out.name = std::string(prefix) + op.schema.ns + "_" + op.schema.name;
  out.ns = "tenon";
  out.returns.clear();
  for (size_t r = 0; r < op.schema.returns.size(); ++r)
    if (op.schema.returned_arg(r) < 0) out.returns.push_back({"", op.schema.returns[r].type, {}});
  for (SchemaArg& arg : out.args) {
    if (arg.mutated()) out.returns.push_back({"", {}, {}});
    arg.alias = {};
  }
  return out;
}

bool has_form(const OpEntry& op) {
  if (!op.mutated_args || op.n_args > most_values || op.n_returns > 8) return false;
  for (const SchemaArg& arg : op.schema.args)
    if (arg.mutated() && (arg.type.base != BaseType::tensor || arg.type.is_list)) return false;
  for (const SchemaReturn& r : op.schema.returns)
    if (r.type != SchemaType{}) return false;
  return op.n_returns + static_cast<uint32_t>(std::popcount(op.mutated_args)) <= 8;
}

OpTags kept_tags(const OpEntry& op) {
  constexpr uint64_t kept =
      TN_TAG_RANDOM | TN_TAG_NONDETERMINISTIC | TN_TAG_DATA_DEPENDENT | TN_TAG_SIDE_EFFECT;
  return static_cast<OpTags>(op.tags & kept);
}

}  // namespace

const OpEntry& functional_copy_form(const OpEntry& op) {
  require(has_form(op), ErrorCode::unsupported,
          "{} writes a list of tensors, or gives other results than single tensors, which cannot "
          "be made functional yet",
          op.name);
  static std::mutex making;
  std::lock_guard lock(making);
  Schema schema = functional_schema(op);
  if (const OpEntry* known = find_added_op(schema.canonical_name())) return *known;
  auto* row = new FunctionalRow;
  row->text = to_text(schema);
  row->original = &op;
  row->schema = row->text.c_str();
  row->tags = kept_tags(op);
  row->meta.metas = &metas_of_functional;
  row->eager.returns = &run_functional;
  return add_op(row);
}

// tenon.functional_<namespace>_<name>.<overload>; both may have underscores.
const OpEntry* functional_copy_form(std::string_view name) {
  constexpr std::string_view begin = "tenon.functional_";
  if (!name.starts_with(begin)) return nullptr;
  std::string_view rest = name.substr(begin.size());
  for (size_t at = rest.find('_'); at < rest.size(); at = rest.find('_', at + 1)) {
    const OpEntry* op = find_op(message("{}.{}", rest.substr(0, at), rest.substr(at + 1)));
    if (op && has_form(*op)) return &functional_copy_form(*op);
  }
  return nullptr;
}

bool same_arguments(const Schema& a, const Schema& b) {
  return std::ranges::equal(a.args, b.args, [](const SchemaArg& x, const SchemaArg& y) {
    return x.type.base == y.type.base && x.type.is_list == y.type.is_list;
  });
}

}  // namespace tenon
