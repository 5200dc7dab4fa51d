// Memory and views of a graph that is recorded again.
#include "aot/functional_values.h"

#include "aot/shared_inputs.h"
#include "autograd/grad_state.h"
#include "autograd/saved/saved_tensor.h"
#include "core/error.h"
#include "core/sym/sym_int.h"
#include "core/sym/sym_simplify.h"
#include "graph/passes/aliasing.h"
#include "graph/symbol_use.h"
#include "ops/op_ids.h"
#include "ops/op_table.h"
#include "ops/shapes.h"

#include <tenon/autograd.h>
#include <tenon/ops/copy.h>
#include <tenon/ops/create.h>
#include <tenon/ops/nn.h>

#include <algorithm>

namespace tenon {

namespace {

// Whether the strides are these, but for those that take no step.
bool lies_as(const Tensor& t, const Dims& strides) {
  for (size_t d = 0; d < strides.size(); ++d)
    if (!is_one(t.sizes()[d]) && !guard_or_false(t.strides()[d] == strides[d])) return false;
  return true;
}

// The content of a write that gradients do not see, with the history that the memory had.
Tensor with_history_of(const Tensor& before, const Tensor& content) {
  Tensor out = autograd::bare_alias(content);
  autograd::Edge edge = autograd::edge_of(before);
  if (edge) autograd::set_history(out, edge.node, edge.input);
  return out;
}

// Whether the elements are all that there is from the beginning of the memory on.
bool fills_memory(const Tensor& t) {
  return guard_or_false(sym_offset_of(t) == 0) && lies_as(t, preserved_strides(t));
}

// A write never changes the layout of what it writes, and the functional op may have its own: views
// of the memory, also by place, and ops that go by strides would see it. Gaps are not copied.
Tensor in_order_of(const Tensor& before, Tensor content) {
  Dims strides = preserved_strides(before);
  if (lies_as(content, strides)) return content;
  return copy(empty_strided(before.sizes(), list_of(strides), before.dtype(), std::nullopt,
                            before.device()),
              content);
}

constexpr const char* beyond_memory =
    "as_strided of a tensor that is written shows memory beyond the tensor, which cannot be made "
    "functional; call it on the tensor that shows it all";

// Looks at the memory of its first argument, and maybe through a part.
bool looks_by_place(const OpEntry& op) {
  return (op.def->tags & OpTags::by_place) || op.id == OpId::aten_as_strided_copy_default;
}

// A value shows memory by place only where it lies row by row from the start, as it was made and as
// it is now.
bool lies_row_by_row(const Base& base) {
  auto row_by_row = [](const Tensor& t) {
    return t.is_contiguous() && guard_or_false(sym_offset_of(t) == 0);
  };
  return row_by_row(base.made) && row_by_row(base.current);
}

// A view by place shows memory beyond what the viewed tensor shows of it, so that what is written
// there cannot go through that tensor: the view begins at the base. Not where gradients end.
bool begins_at_base(const Alias& viewed, const Base& base) {
  return (base.is_shared || lies_row_by_row(base)) &&
         viewed.value.dtype() == base.current.dtype() &&
         std::ranges::none_of(viewed.chain, [](const ViewStep& step) {
           return step.without_grad || step.op->def->vjp.kind == Vjp::Kind::none;
         });
}

// Where the arguments name values; a list may have holes. Elements of a list may share memory:
// result k shows element k, so that one comes first.
std::vector<ViewStep::Place> places_of_tensors(const Node& node, uint32_t result) {
  std::vector<ViewStep::Place> places;
  for (uint32_t i = 0; i < node.args.size(); ++i) {
    const Value& a = node.args[i];
    if (a.tag == Tag::ref) places.push_back({i});
    for (uint32_t k = 0; a.tag == Tag::refs && k < a.count; ++k)
      if (a.as<ValueId>()[k] != no_value) places.push_back({i, static_cast<int32_t>(k)});
  }
  auto own = [&](ViewStep::Place p) { return p.element == static_cast<int32_t>(result); };
  std::ranges::stable_partition(places, own);
  return places;
}

}  // namespace

Number RenewedSymbols::renewed(Number value) const {
  if (!value.is_symbolic() || empty()) return value;
  return number_over(substitute(expression_of(value), [this](const Expr* symbol) -> const Expr* {
    auto found = renewed_.find(symbol);
    return found == renewed_.end() ? nullptr : found->second;
  }));
}

FunctionalValues::FunctionalValues(const Graph& graph, bool training, RenewedSymbols symbols)
    : graph_(graph),
      training_(training),
      knows_aliases_(tells_aliases(graph)),
      symbols_(std::move(symbols)),
      aliases_(graph.values().size()),
      numbers_(graph.values().size()) {}

void FunctionalValues::add_memory(ValueId id, Base base) {
  aliases_[id] = Alias{bases_.size(), {}, base.current, 0, base.input, id};
  bases_.push_back(std::move(base));
}

// A member whose elements are several of the memory's is a view of rows of them by place, each of
// which it shows as one number.
std::vector<ViewStep> FunctionalValues::views_of_shared(const GraphValue& member, Dtype memory,
                                                        SymInt first) {
  const Dtype dtype = member.meta.dtype;
  const auto width = static_cast<int64_t>(itemsize(dtype) / itemsize(memory));
  Dims sizes = member.meta.sizes, strides = member.meta.strides;
  if (width > 1) {
    for (SymInt& stride : strides) stride = stride * width;
    sizes.push_back(width);
    strides.push_back(1);
  }
  std::vector<ViewStep> chain;
  auto add = [&](OpId op, std::vector<Value> args) {
    args.insert(args.begin(), Value{});
    chain.push_back({&entry_of(op), kept_arguments_.emplace_back(std::move(args))});
  };
  add(OpId::aten_as_strided_default,
      {Value::of(list_of(kept_dims_.emplace_back(std::move(sizes)))),
       Value::of(list_of(kept_dims_.emplace_back(std::move(strides)))),
       Value::of(member.offset * width - first)});
  if (is_complex(dtype) && !is_complex(memory)) {
    add(OpId::aten_view_as_complex_default, {});
  } else if (dtype != memory) {
    add(OpId::aten_view_dtype, {Value::of(dtype)});
    if (width > 1) add(OpId::aten_squeeze_dim, {Value::of(int64_t{-1})});
  }
  return chain;
}

void FunctionalValues::add_shared_memory(const SharedInput& shared, uint32_t position,
                                         Tensor memory, SymInt first) {
  // Outputs are counted from the member whose elements are the widest: of narrower ones, each offset
  // is a whole number.
  uint32_t widest = *std::ranges::max_element(shared.members, {}, [&](uint32_t m) {
    return itemsize(graph_.value(graph_.inputs()[m]).meta.dtype);
  });
  bases_.push_back({.current = memory,
                    .input = widest,
                    .position = position,
                    .is_shared = true,
                    .first = first});
  for (uint32_t m : shared.members) {
    ValueId id = graph_.inputs()[m];
    std::vector<ViewStep> chain = views_of_shared(graph_.value(id), memory.dtype(), first);
    Tensor value = memory;
    for (const ViewStep& step : chain) value = apply_view(step, value);
    aliases_[id] = Alias{bases_.size() - 1, std::move(chain), value, 0, m, id};
  }
  bases_.back().made = aliases_[graph_.inputs()[widest]]->value;
}

std::set<uint32_t> FunctionalValues::written_inputs() const {
  std::set<uint32_t> out;
  for (const Base& base : bases_)
    if (base.position != no_value && base.generation) out.insert(base.position);
  return out;
}

// as_strided looks at memory by place, whatever the tensor's own strides are.
void FunctionalValues::check_strided(const Alias& alias) const {
  const Base& base = bases_[alias.base];
  size_t own = base.is_shared ? 1 : 0;  // that of a shared input is meant so
  for (size_t i = own; i < alias.chain.size(); ++i)
    require(!(alias.chain[i].op->def->tags & OpTags::by_place) || lies_row_by_row(base),
            ErrorCode::unsupported,
            "as_strided of a tensor that is written and does not lie row by row cannot be made "
            "functional; use slice, select or transpose");
}

// A functional value has the elements that its input shows, and not the memory around them.
void FunctionalValues::check_within(const Alias& alias) const {
  const Base& base = bases_[alias.base];
  size_t own = base.is_shared ? 1 : 0;
  bool by_place =
      std::any_of(alias.chain.begin() + std::min(own, alias.chain.size()), alias.chain.end(),
                  [](const ViewStep& s) { return s.op->def->tags & OpTags::by_place; });
  if (!by_place) return;
  const Tensor& seen = alias.value;
  SymInt end = sym_offset_of(seen) + 1;
  for (int64_t d = 0; d < seen.dim(); ++d) end = end + (seen.size(d) - 1) * seen.stride(d);
  require(guard_or_false(end * itemsize(seen.dtype()) <=
                         base.current.numel() * itemsize(base.current.dtype())),
          ErrorCode::unsupported, beyond_memory);
}

Tensor& FunctionalValues::current(ValueId id) {
  ensure(aliases_[id].has_value(), "a value is used before it is made");
  Alias& alias = *aliases_[id];
  Base& base = bases_[alias.base];
  if (alias.generation == base.generation) return alias.value;
  check_strided(alias);
  bool from_no_grad = std::ranges::any_of(alias.chain, &ViewStep::without_grad);
  require(!training_ || !from_no_grad || alias.chain.size() == 1, ErrorCode::unsupported,
          "a view of a view that was made while gradients were off is used after a write");
  // Views follow the history of their base, whoever asks for them.
  EnableGradGuard on_tape(training_ || thread_modes.grad_enabled);
  Tensor value = base.current;
  for (const ViewStep& step : alias.chain) value = apply_view(step, value);
  alias.value = value;
  alias.generation = base.generation;
  alias.is_packed = alias.shows_more = false;
  check_within(alias);
  return alias.value;
}

Tensor& FunctionalValues::in_place(ValueId id) {
  Alias& alias = *aliases_[id];
  const Base& base = bases_[alias.base];
  require(
      base.generation == 0 || base.is_shared || fills_memory(base.made), ErrorCode::unsupported,
      "a tensor that is written and has gaps or does not begin its memory is looked at by place, "
      "which cannot be made functional; clone it first");
  if (!alias.is_packed) return current(id);
  alias.is_packed = false;
  alias.generation = base.generation - 1;
  return current(id);
}

void FunctionalValues::note_symbols(NodeId node) {
  for (const SymbolBinding& b : graph_.symbols) {
    const GraphValue& v = graph_.value(b.value);
    if (v.source != ValueSource::node || v.source_index != node) continue;
    if (b.dim < 0) {
      symbols_.note(b.symbol, expression_of(numbers_[b.value]));
    } else if (aliases_[b.value]) {
      symbols_.note(b.symbol, as_expr(aliases_[b.value]->value.size(b.dim)));
    }
  }
}

Value FunctionalValues::argument(ValueId id) {
  ValueKind kind = graph_.value(id).kind;
  return kind == ValueKind::tensor ? Value::of(current(id))
         : kind == ValueKind::none ? Value{}
                                   : Value::of(numbers_[id]);
}

std::vector<Value> FunctionalValues::arguments(const Node& node) {
  const OpEntry& op = entry_of(node.op);
  const bool by_place = looks_by_place(op);
  if ((op.mutated_args & 1) && node.args[0].tag == Tag::ref)
    see_from_base(static_cast<ValueId>(node.args[0].payload));
  if (by_place) in_place(static_cast<ValueId>(node.args[0].payload));
  lists_ = {};
  std::vector<Value> args(node.args.begin(), node.args.end());
  map_arguments(
      args, lists_, [this](ValueId id) { return argument(id); },
      [this](Number n) { return symbols_.renewed(n); });
  if (by_place) find_place(static_cast<ValueId>(node.args[0].payload), args);
  return args;
}

// A write is one of the base to the tape, and so is what it writes.
void FunctionalValues::see_from_base(ValueId id) {
  Alias& alias = *aliases_[id];
  if (alias.shows_more) alias.generation = bases_[alias.base].generation - 1;
}

// Places are counted from the beginning of the storage, in which memory that arguments share begins
// somewhere. Written memory ends where the tensor ends.
void FunctionalValues::find_place(ValueId id, std::vector<Value>& args) {
  const Tensor& self = current(id);
  const Base& base = bases_[aliases_[id]->base];
  if (base.generation == 0 && !base.is_shared) return;
  const int64_t own = itemsize(self.dtype()), width = itemsize(base.current.dtype());
  Value& place = args.back();
  SymInt offset = sym_offset_of(self);
  if (place.tag != Tag::none) {
    offset = place.number().sym_int() - base.first * width / own;
    place = Value::of(offset);
  }
  auto sizes = arg_as<SymIntList>(args[args.size() - 3]),
       strides = arg_as<SymIntList>(args[args.size() - 2]);
  SymInt end = offset + 1;
  for (size_t d = 0; d < sizes.size(); ++d) end = end + (sizes[d] - 1) * strides[d];
  require(guard_or_false(offset >= 0) && guard_or_false(end * own <= base.current.numel() * width),
          ErrorCode::unsupported, beyond_memory);
}

// New content goes up the chain: each step's inverse gives the tensor that it viewed, up to the
// base.
void FunctionalValues::write(ValueId id, Tensor content) {
  const Tensor before = current(id);
  Alias& alias = *aliases_[id];
  Base& base = bases_[alias.base];
  check_strided(alias);
  check_within(alias);
  require(!base.is_shared || !may_show_twice(before.sizes(), before.strides()),
          ErrorCode::unsupported,
          "an argument is written whose elements share memory with one another and with another "
          "argument, which cannot be made functional; clone it first");
  // Content without a history ends the one that was there: a zero goes to it, as copy gives it.
  if (training_ && thread_modes.grad_enabled && before.requires_grad() && !content.requires_grad())
    content = copy(before, content);
  Tensor whole = in_order_of(base.current, scatter_views(alias.chain, base.current, content));
  ++base.generation;
  const bool is_hidden = is_hidden_from_grad(alias);
  if (training_ && is_hidden) {
    require(!thread_modes.grad_enabled || !content.requires_grad(), ErrorCode::unsupported,
            "a value that needs a gradient is written through detach(), which gives one memory two "
            "histories");
    base.current = with_history_of(base.current, whole);
    if (base.current.requires_grad()) with_older_history_.push_back(base.current);
    return;  // the alias is made anew, with its part of that history
  }
  base.written_with_grad |= !is_hidden;
  base.current = std::move(whole);
  const bool is_whole = alias.chain.empty();
  if (!is_whole && !lies_as(content, preserved_strides(before))) return;  // made anew
  alias.value = is_whole ? base.current : content;
  alias.generation = base.generation;
  alias.is_packed = !is_whole;
}

// Writes under NoGradGuard or through detach().
bool FunctionalValues::is_hidden_from_grad(const Alias& alias) const {
  const bool grad_is_on = training_ ? thread_modes.grad_enabled : grad_is_on_;
  return !grad_is_on || std::ranges::any_of(alias.chain, [](const ViewStep& step) {
    return step.without_grad || step.op->def->vjp.kind == Vjp::Kind::none;
  });
}

void FunctionalValues::become(ValueId self, const Alias& now) {
  const ValueId identity = aliases_[self]->identity;
  for (std::optional<Alias>& alias : aliases_)
    if (alias && alias->identity == identity) alias = now;
  aliases_[now.restrided] = now;
}

void FunctionalValues::restride(ValueId self, ValueId view) {
  Alias now = *aliases_[view];
  now.input = aliases_[self]->input;
  now.identity = aliases_[self]->identity;
  if (now.detached == view) now.detached = now.identity;  // detach_
  now.restrided = view;
  now.reshaped_with_grad = aliases_[self]->reshaped_with_grad || grad_is_on_;
  become(self, now);
}

// The view by place that looks as `seen` does, from `offset` on.
ViewStep FunctionalValues::place_step(const GraphValue& seen, SymInt offset) {
  static const OpEntry& as_strided = entry_of(OpId::aten_as_strided_default);
  auto& args = kept_arguments_.emplace_back(
      std::vector<Value>{Value{}, Value::of(list_of(seen.meta.sizes)),
                         Value::of(list_of(seen.meta.strides)), Value::of(offset)});
  if (!symbols_.empty())
    map_arguments(
        std::span(args).subspan(1), kept_lists_, [](ValueId) { return Value{}; },
        [this](Number n) { return symbols_.renewed(n); });
  return {&as_strided, args};
}

void FunctionalValues::resize(ValueId self, ValueId resized) {
  const GraphValue& seen = graph_.value(resized);
  SymInt offset = sym_offset_of(in_place(self)), end = offset + 1;
  Alias now = *aliases_[self];
  const Base& base = bases_[now.base];
  require(
      lies_row_by_row(base) && !base.is_shared, ErrorCode::unsupported,
      "other sizes of a tensor that does not lie row by row in memory of its own cannot be made "
      "functional; clone it first");
  if (begins_at_base(now, base)) now.chain.clear();
  now.reshaped_with_grad |= grad_is_on_;
  now.chain.push_back(place_step(seen, offset));
  for (size_t d = 0; d < seen.meta.sizes.size(); ++d)
    end = end + (symbols_.renewed(seen.meta.sizes[d]) - 1) * symbols_.renewed(seen.meta.strides[d]);
  if (end <= base.made.numel()) {
    now.value = apply_view(now.chain.back(), now.chain.size() == 1 ? base.current : now.value);
    now.restrided = resized;
    return become(self, now);
  }
  require(base.input == no_value, ErrorCode::unsupported,
          "an argument grows beyond its memory, which cannot be made functional; clone it first");
  Tensor larger = constant_pad_nd(base.current.reshape({-1}), {0, end - base.made.numel()});
  give_memory(self, resized, apply_view(now.chain.back(), larger));
}

void FunctionalValues::give_memory(ValueId self, ValueId seen, Tensor content) {
  bases_.push_back({.current = content, .origin = seen, .made = content});
  become(self, Alias{bases_.size() - 1, {}, content, 0, no_value, seen, seen});
}

// Whether a result is a view is what the original graph says: a value here can be laid out
// otherwise than the original, so that a reshape copies that did not, or the other way round.
void FunctionalValues::add_result(const Node& node, const OpEntry& op, ValueId id, uint32_t index,
                                  Tensor value) {
  bool shares = false;
  for (ViewStep::Place place : places_of_tensors(node, index)) {
    const Value& a = node.args[place.arg];
    auto argument = place.element < 0 ? static_cast<ValueId>(a.payload)
                                      : a.as<ValueId>()[static_cast<size_t>(place.element)];
    if (graph_.value(argument).kind != ValueKind::tensor) continue;
    Alias& viewed = *aliases_[argument];
    shares = shares || shares_storage(viewed.value, value);
    if (!is_alias(id, argument, viewed, value)) continue;
    Alias alias = viewed;
    if (!value.is_same(viewed.value)) {
      bool by_place = op.def->tags & OpTags::by_place;
      const bool is_from_base =
          by_place && !alias.chain.empty() && begins_at_base(alias, bases_[alias.base]);
      if (is_from_base && !alias.shows_more) alias.made_by = alias.chain;
      alias.shows_more = alias.shows_more || is_from_base;
      ViewStep step = view_step(node, op, index, place);
      if (alias.shows_more) alias.made_by.push_back(step);
      if (is_from_base)
        alias.chain = {place_step(graph_.value(id), sym_offset_of(value))};
      else
        alias.chain.push_back(std::move(step));
      // As on the tape: a view of what needs a gradient, made while gradients are off, has none.
      alias.chain.back().without_grad = !thread_modes.grad_enabled && viewed.value.requires_grad();
      if (op.def->vjp.kind == Vjp::Kind::none) alias.detached = id;
      alias.value = value;
      alias.identity = id;
      alias.input = alias.restrided = no_value;
      alias.made_in = bases_[alias.base].generation;
      if (bases_[alias.base].generation) check_within(alias);
    }
    aliases_[id] = std::move(alias);
    return;
  }
  if (shares) value = value.clone();
  add_memory(id, {.current = value, .origin = id, .made = value});
}

// Views can be made anew long after their node: what they take besides the viewed tensor is kept as
// it is now.
ViewStep FunctionalValues::view_step(const Node& node, const OpEntry& op, uint32_t index,
                                     ViewStep::Place viewed) {
  auto is_ref = [](const Value& a) { return a.tag == Tag::ref || a.tag == Tag::refs; };
  bool is_fixed = viewed.arg == 0 && viewed.element < 0 &&
                  std::none_of(node.args.begin() + 1, node.args.end(), is_ref);
  if (is_fixed && symbols_.empty()) return {&op, node.args, index};
  auto& args = kept_arguments_.emplace_back(node.args.begin(), node.args.end());
  auto kept = [this](ValueId id) {
    Value now = argument(id);
    return now.tag == Tag::tensor ? Value::of(kept_tensors_.emplace_back(*now.as<Tensor>())) : now;
  };
  if (viewed.element < 0) args[viewed.arg] = Value{};
  map_arguments(args, kept_lists_, kept, [this](Number n) { return symbols_.renewed(n); });
  return {&op, args, index, false, viewed};
}

bool FunctionalValues::is_alias(ValueId id, ValueId argument, const Alias& viewed,
                                const Tensor& value) const {
  if (!knows_aliases_) return shares_storage(viewed.value, value);
  uint32_t group = graph_.value(id).alias_group;
  return group != 0 && group == graph_.value(argument).alias_group;
}

}  // namespace tenon
