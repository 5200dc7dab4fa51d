// The form calls the op with copies of what it writes. Tensors that share memory with a written one
// get a copy of that memory, in which they lie as they did.
#include "ops/forms/functional_form.h"

#include "core/error.h"
#include "core/tensor/each_tensor.h"
#include "core/tensor/tensor_impl.h"
#include "ops/op.h"

#include <tenon/ops/create.h>
#include <tenon/plugin.h>

#include <algorithm>
#include <bit>
#include <deque>
#include <map>
#include <mutex>

namespace tenon {

namespace {

constexpr uint32_t most_values = 16;

std::string_view prefix_of(bool shares) { return shares ? "shared_functional_" : "functional_"; }

/// Leaked, as rows are.
struct FunctionalRow : OpDef {
  std::string text;
  const OpEntry* original = nullptr;
  bool shares = false;  ///< its last argument says how tensors share memory
};

const FunctionalRow& row_behind(const CallArgs& call) {
  return *static_cast<const FunctionalRow*>(call.op->def);
}

/// A tensor of the call, and what the op gets in its place.
struct Given {
  const Tensor& tensor;
  uint32_t arg;
  int64_t block = -1;  ///< of memory that it shares with others; -1: none
  SymInt offset;
  SymIntList strides;
  Tensor passed;
};

std::vector<Given> tensors_of(const CallArgs& call) {
  const OpEntry& op = *row_behind(call).original;
  SymIntList places;
  if (row_behind(call).shares) places = arg_as<SymIntList>(call.args[op.n_args]);
  std::vector<Given> out;
  size_t at = 0;
  for (uint32_t i = 0; i < op.n_args; ++i)
    each_tensor(call.args[i], [&](const Tensor& t) {
      if (!t.defined()) return;
      Given& given = out.emplace_back(Given{t, i});
      if (places.size()) given.block = places[at++].guard_int();
      if (given.block < 0) return;
      const auto rank = static_cast<size_t>(t.dim());
      given.offset = places[at];
      given.strides = List<SymInt>(places.data() + at + 1, rank);
      at += rank + 1;
    });
  return out;
}

// What lies in one place is equal.
void put_content(const Tensor& place, const Tensor& content) {
  if (!has_internal_overlap(place)) {
    place.copy_(content);
    return;
  }
  const int64_t rows = place.stride(0) == 0 ? 1 : place.size(0).guard_int();
  for (int64_t i = 0; i < rows; ++i) put_content(place.select(0, i), content.select(0, i));
}

// The members of a block, as far from one another as in their memory.
void copy_block(std::span<Given* const> members) {
  constexpr int64_t widest = 16;  // bytes of an element: at such places the copy may begin
  int64_t begin = std::numeric_limits<int64_t>::max(), end = 0;
  for (const Given* given : members) {
    int64_t last = given->offset.guard_int();
    const int64_t bytes = itemsize(given->tensor.dtype());
    begin = std::min(begin, last * bytes / widest * widest);
    for (size_t d = 0; d < given->strides.size(); ++d)
      last += (given->tensor.size(d).guard_int() - 1) * given->strides[d].guard_int();
    end = std::max(end, (last + 1) * bytes);
  }
  Tensor memory = empty({end - begin}, Dtype::u8, {}, members[0]->tensor.device());
  for (Given* given : members) {
    const Tensor& t = given->tensor;
    SymInt offset = given->offset - begin / static_cast<int64_t>(itemsize(t.dtype()));
    given->passed = make_view_as(memory, t.dtype(), t.sizes(), given->strides, offset);
    put_content(given->passed, t);
  }
}

void copy_blocks(std::span<Given> tensors) {
  std::map<int64_t, std::vector<Given*>> blocks;
  for (Given& given : tensors)
    if (given.block >= 0 && given.tensor.numel() != 0) blocks[given.block].push_back(&given);
  for (const auto& [number, members] : blocks) copy_block(members);
}

// Fakes have no memory to share.
void pass_fakes(std::span<Given> tensors) {
  for (Given& given : tensors) {
    if (given.block < 0) continue;
    TensorMeta meta = meta_of(given.tensor);
    meta.strides = dims_of(given.strides);
    given.passed = make_fake(meta);
  }
}

/// What the op is called with: `tensors` in the place of the form's.
struct PassedArguments {
  Value values[most_values];
  std::deque<std::vector<Tensor>> lists;

  PassedArguments(const CallArgs& call, std::span<const Given> tensors) {
    const Given* next = tensors.data();
    for (uint32_t i = 0; i < row_behind(call).original->n_args; ++i) {
      values[i] = call.args[i];
      if (values[i].tag == Tag::tensor && values[i].as<Tensor>()->defined())
        values[i] = Value::of((next++)->passed);
      if (values[i].tag != Tag::tensors) continue;
      auto& list =
          lists.emplace_back(values[i].as<Tensor>(), values[i].as<Tensor>() + values[i].count);
      for (Tensor& t : list)
        if (t.defined()) t = (next++)->passed;
      values[i] = Value::of(TensorList(list));
    }
  }
};

/// Results of the form, in order: f(index, value).
template <class F>
void run_on_copies(const CallArgs& call, bool on_fakes, const F& give) {
  const OpEntry& op = *row_behind(call).original;
  std::vector<Given> tensors = tensors_of(call);
  on_fakes ? pass_fakes(tensors) : copy_blocks(tensors);
  auto is_written = [&](uint32_t arg) { return (op.mutated_args >> arg & 1) != 0; };
  for (Given& given : tensors)
    if (!given.passed.defined())
      given.passed = is_written(given.arg) ? given.tensor.clone() : given.tensor;
  PassedArguments args(call, tensors);
  Value results[8];
  dispatch(op, args.values, op.n_args, results, op.n_returns);
  uint32_t n = 0;
  for (uint32_t r = 0; r < op.n_returns; ++r) {
    Tensor result = take<Tensor>(results[r]);
    if (op.schema.returned_arg(r) < 0) give(n++, std::move(result));
  }
  for (uint32_t i = 0; i < op.n_args; ++i) {
    if (!is_written(i)) continue;
    auto given = std::ranges::find(tensors, i, &Given::arg);
    if (given == tensors.end())
      give(n++, Tensor());
    else
      give(n++, given->block < 0 ? given->passed : given->passed.clone());
  }
}

void run_functional(const CallArgs& call) {
  BelowAutograd below;
  BelowAutocast as_given;
  run_on_copies(call, false,
                [&](uint32_t r, Tensor t) { call.results[r] = Value::own(std::move(t)); });
}

// An argument that was not given has no new content.
void metas_of_functional(const CallArgs& call, Metas& metas) {
  FakeScope fakes;
  run_on_copies(call, true, [&](uint32_t, const Tensor& t) {
    if (t.defined())
      metas.add(meta_of(t));
    else
      metas.add({}).defined = false;
  });
}

Schema functional_schema(const OpEntry& op, bool shares) {
  Schema out = op.schema;
  out.name = message("{}{}_{}", prefix_of(shares), op.schema.ns, op.schema.name);
  out.ns = "tenon";
  out.returns.clear();
  for (size_t r = 0; r < op.schema.returns.size(); ++r)
    if (op.schema.returned_arg(r) < 0) out.returns.push_back({"", op.schema.returns[r].type, {}});
  for (SchemaArg& arg : out.args) {
    if (arg.mutated()) out.returns.push_back({"", {}, {}});
    arg.alias = {};
  }
  if (!shares) return out;
  SchemaArg places{.name = "places", .type = {.base = BaseType::sym_int, .is_list = true}};
  places.kwarg_only = std::ranges::any_of(out.args, &SchemaArg::kwarg_only);
  out.args.push_back(std::move(places));
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

const OpEntry& functional_copy_form(const OpEntry& op, bool shares) {
  require(has_form(op), ErrorCode::unsupported,
          "{} writes a list of tensors, or gives other results than single tensors, which cannot "
          "be made functional yet",
          op.name);
  static std::mutex making;
  std::lock_guard lock(making);
  Schema schema = functional_schema(op, shares);
  if (const OpEntry* known = find_added_op(schema.canonical_name())) return *known;
  auto* row = new FunctionalRow;
  row->text = to_text(schema);
  row->original = &op;
  row->shares = shares;
  row->schema = row->text.c_str();
  row->tags = kept_tags(op);
  row->meta.metas = &metas_of_functional;
  row->eager.returns = &run_functional;
  return add_op(row);
}

// tenon.functional_<namespace>_<name>.<overload>; both may have underscores.
const OpEntry* functional_copy_form(std::string_view name) {
  for (bool shares : {false, true}) {
    std::string begin = message("tenon.{}", prefix_of(shares));
    if (!name.starts_with(begin)) continue;
    std::string_view rest = name.substr(begin.size());
    for (size_t at = rest.find('_'); at < rest.size(); at = rest.find('_', at + 1)) {
      const OpEntry* op = find_op(message("{}.{}", rest.substr(0, at), rest.substr(at + 1)));
      if (op && has_form(*op)) return &functional_copy_form(*op, shares);
    }
  }
  return nullptr;
}

bool same_arguments(const Schema& a, const Schema& b) {
  return std::ranges::equal(a.args, b.args, [](const SchemaArg& x, const SchemaArg& y) {
    return x.type.base == y.type.base && x.type.is_list == y.type.is_list;
  });
}

}  // namespace tenon
