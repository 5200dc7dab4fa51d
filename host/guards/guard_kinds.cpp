// The kinds of guards: a row for each, with what it keeps of a recording and what it says of a
// later call. Checked in the order of the table at the end, so a row may rely on those above it.
#include "core/error.h"
#include "core/sym/shape_env.h"
#include "graph/memory_budget.h"
#include "guards/global_state.h"
#include "guards/guard_kind.h"
#include "guards/tensor_numbers.h"

#include <tenon/thread_object.hpp>

#include <algorithm>
#include <bit>

namespace tenon {

using detail::Leaves;

namespace {

std::string goes_without_saying(const GuardSet&) { return ""; }

std::string budget_text(std::optional<double> budget) {
  return budget ? message("{}", *budget) : "none";
}

// ---- how many leaves there are, and how they hang together

void record_structure(GuardSet& g, const GuardedCall& call) { g.structure = call.leaves.structure; }

bool same_structure(const GuardSet& g, const Leaves& leaves) {
  return leaves.structure == g.structure && leaves.tensors.size() == g.tensors.size() &&
         leaves.plain.size() == g.plain.size() && leaves.texts.size() == g.texts.size() &&
         leaves.numbers.size() == g.numbers.size();
}

// ---- tensors

// As t.requires_grad(), without a call where it can only be the flag: guards are checked often.
bool needs_grad(const Tensor& t) {
  return (t.head()->flags & TN_T_REQUIRES_GRAD) ||
         (impl_of(t)->base.defined() && t.requires_grad());
}

// Symbolic sizes and strides are free, as are strides over one element.
TensorGuard recorded_guard(const GuardedCall& call, size_t index) {
  const Tensor& real = *call.leaves.tensors[index];
  TensorGuard g{};
  g.defined = real.defined();
  if (!g.defined) return g;
  g = guard_of(real);
  g.requires_grad = call.needs_grad[index];
  g.any_requires_grad = call.any_requires_grad;
  const Dims &sizes = call.metas[index].sizes, &strides = call.metas[index].strides;
  for (size_t d = 0; d < sizes.size() && d < 64; ++d) {
    uint64_t bit = uint64_t{1} << d;
    bool steps_nowhere = real.head()->sizes[d] == 1 && !sizes[d].is_symbolic();
    if (sizes[d].is_symbolic()) g.free_sizes |= bit;
    if (strides[d].is_symbolic() || steps_nowhere) g.free_strides |= bit;
  }
  return g;
}

void record_tensors(GuardSet& g, const GuardedCall& call) {
  for (size_t i = 0; i < call.leaves.tensors.size(); ++i)
    g.tensors.push_back(recorded_guard(call, i));
}

bool tensors_match(const GuardSet& g, const Leaves& leaves) {
  for (size_t i = 0; i < g.tensors.size(); ++i)
    if (!matches(g.tensors[i], *leaves.tensors[i])) return false;
  return true;
}

// Whether nothing but sizes and strides can differ.
bool is_of_kind(const TensorGuard& g, const Tensor& t) {
  const detail::TensorHead* h = t.head();
  return h->dtype == g.dtype && h->device_type == g.device_type &&
         h->device_index == g.device_index && h->ndim == g.ndim &&
         (needs_grad(t) == g.requires_grad || g.any_requires_grad);
}

size_t first_other_size(const TensorGuard& g, const detail::TensorHead* h) {
  size_t d = 0;
  while (d < g.sizes.size() && (h->sizes[d] == g.sizes[d] || g.free_sizes >> d & 1)) ++d;
  return d;
}

std::string tensor_reason(const TensorGuard& g, const Tensor& t, size_t index) {
  std::string who = message("tensor argument {}", index);
  if (!t.defined() || !g.defined) return who + (g.defined ? " is undefined" : " is defined");
  const detail::TensorHead* h = t.head();
  auto differs = [&](std::string_view what, const auto& expected, const auto& found) {
    return message("{}: {} expected {}, found {}", who, what, expected, found);
  };
  if (h->dtype != g.dtype) return differs("dtype", static_cast<Dtype>(g.dtype), t.dtype());
  if (h->device_type != g.device_type || h->device_index != g.device_index)
    return differs("device", Device{static_cast<DeviceType>(g.device_type), g.device_index},
                   t.device());
  if (h->ndim != g.ndim) return differs("rank", g.ndim, h->ndim);
  if (needs_grad(t) != g.requires_grad && !g.any_requires_grad)
    return differs("requires_grad", g.requires_grad, t.requires_grad()) +
           " (guards.strict_requires_grad = false ignores it while gradients are off)";
  if (size_t d = first_other_size(g, h); d < g.sizes.size())
    return differs(message("size at dimension {}", d), g.sizes[d], h->sizes[d]) +
           message(
               " (mark_dynamic(tensor, {}) or compiler.dynamic_sources = "
               "[\"arg{}.size({})\"] avoids this)",
               d, index, d);
  for (size_t d = 0; d < g.strides.size(); ++d)
    if (h->strides[d] != g.strides[d] && !(g.free_strides >> d & 1))
      return differs(message("stride at dimension {}", d), g.strides[d], h->strides[d]);
  return who + " differs";
}

size_t first_other_tensor(const GuardSet& g, const Leaves& leaves) {
  size_t i = 0;
  while (matches(g.tensors[i], *leaves.tensors[i])) ++i;
  return i;
}

std::string why_tensors(const GuardSet& g, const Leaves& leaves) {
  size_t i = first_other_tensor(g, leaves);
  return tensor_reason(g.tensors[i], *leaves.tensors[i], i);
}

std::string_view advice_on_tensors(const GuardSet& guards, const Leaves& leaves) {
  size_t i = first_other_tensor(guards, leaves);
  const TensorGuard& g = guards.tensors[i];
  const Tensor& t = *leaves.tensors[i];
  bool is_size = g.defined && t.defined() && is_of_kind(g, t) &&
                 first_other_size(g, t.head()) < g.sizes.size();
  return is_size ? "mark sizes dynamic" : "";
}

std::string every_tensor(const GuardSet& g, const Leaves& leaves) {
  std::string out;
  for (size_t i = 0; i < g.tensors.size(); ++i)
    if (!matches(g.tensors[i], *leaves.tensors[i]))
      out += (out.empty() ? "" : "\n") + tensor_reason(g.tensors[i], *leaves.tensors[i], i);
  return out;
}

std::string dims_text(std::span<const int64_t> values, uint64_t free) {
  std::string out;
  for (size_t d = 0; d < values.size(); ++d)
    out += (d ? ", " : "") + (free >> d & 1 ? std::string("any") : std::to_string(values[d]));
  return out;
}

std::string tensors_text(const GuardSet& guards) {
  std::string out;
  for (size_t i = 0; i < guards.tensors.size(); ++i) {
    const TensorGuard& g = guards.tensors[i];
    if (!g.defined) {
      out += message("tensor {}: undefined\n", i);
      continue;
    }
    out += message("tensor {}: {} on {}, sizes [{}], strides [{}]", i, static_cast<Dtype>(g.dtype),
                   Device{static_cast<DeviceType>(g.device_type), g.device_index},
                   dims_text(g.sizes, g.free_sizes), dims_text(g.strides, g.free_strides));
    out += g.any_requires_grad ? "\n" : message(", requires_grad {}\n", g.requires_grad);
  }
  return out;
}

// ---- plain values, texts, numbers that may be symbolic: each must be what it was

struct PlainValues {
  static constexpr bool seen_in_body = true;
  static constexpr std::string_view name = "plain value";
  static std::string_view advice(const detail::PlainLeaf& leaf) {
    return leaf.kind == 2 ? "" : "; declare it SymInt or SymFloat to make it dynamic";
  }
  static auto& kept(auto& guards) { return guards.plain; }
  static auto given(const GuardedCall& call) { return call.leaves.plain.span(); }
  static auto found(const Leaves& leaves) { return leaves.plain.span(); }
  static bool is_free(const detail::PlainLeaf&) { return false; }
  static bool serves(const detail::PlainLeaf& kept, const detail::PlainLeaf& found) {
    return kept == found;
  }
  static std::string text(const detail::PlainLeaf& leaf) {
    if (leaf.kind == 1) return message("{}", std::bit_cast<double>(leaf.bits));
    if (leaf.kind == 2) return leaf.bits ? "true" : "false";
    return message("{}", static_cast<int64_t>(leaf.bits));
  }
};

struct Texts {
  static constexpr bool seen_in_body = true;
  static constexpr std::string_view name = "text";
  static std::string_view advice(std::string_view) { return ""; }
  static auto& kept(auto& guards) { return guards.texts; }
  static auto given(const GuardedCall& call) { return call.leaves.texts.span(); }
  static auto found(const Leaves& leaves) { return leaves.texts.span(); }
  static bool is_free(std::string_view) { return false; }
  static bool serves(std::string_view kept, std::string_view found) { return kept == found; }
  static std::string text(std::string_view text) { return message("'{}'", text); }
};

struct Numbers {
  static constexpr bool seen_in_body = false;
  static constexpr std::string_view name = "number";
  static std::string_view advice(const Number&) { return ""; }
  static auto& kept(auto& guards) { return guards.numbers; }
  static auto given(const GuardedCall& call) { return call.numbers; }
  static auto found(const Leaves& leaves) { return leaves.numbers.span(); }
  static bool is_free(Number kept) { return kept.is_symbolic(); }
  static bool serves(Number kept, Number found) {
    return found.kind() == kept.kind() && (is_free(kept) || found.word() == kept.word());
  }
  static std::string text(Number number) { return message("{}", number); }
};

template <class Of>
struct Values {
  static void record(GuardSet& g, const GuardedCall& call) {
    auto given = Of::given(call);
    Of::kept(g).assign(given.begin(), given.end());
  }
  static size_t first_other(const GuardSet& g, const Leaves& leaves) {
    auto found = Of::found(leaves);
    size_t i = 0;
    while (i < found.size() && Of::serves(Of::kept(g)[i], found[i])) ++i;
    return i;
  }
  static bool check(const GuardSet& g, const Leaves& leaves) {
    return first_other(g, leaves) == Of::kept(g).size();
  }
  static std::string why(const GuardSet& g, const Leaves& leaves) {
    size_t i = first_other(g, leaves);
    return message("{} {}: expected {}, found {}{}", Of::name, i, Of::text(Of::kept(g)[i]),
                   Of::text(Of::found(leaves)[i]), Of::advice(Of::found(leaves)[i]));
  }
  static std::string text(const GuardSet& g) {
    std::string out;
    for (size_t i = 0; i < Of::kept(g).size(); ++i)
      if (!Of::is_free(Of::kept(g)[i]))
        out += message("{} {} is {}\n", Of::name, i, Of::text(Of::kept(g)[i]));
    return out;
  }
  static constexpr GuardKind kind = {record, check, why, text, Of::seen_in_body};
};

// ---- tensors that are one object

void record_same_objects(GuardSet& g, const GuardedCall& call) {
  TensorNumbers numbers;
  numbers.restart(call.leaves.tensors.size());
  bool repeated = false;
  for (uint32_t i = 0; i < call.leaves.tensors.size(); ++i) {
    g.same_as.push_back(numbers.add(*call.leaves.tensors[i]));
    repeated = repeated || g.same_as.back() != i;
  }
  if (!repeated) g.same_as.clear();
}

bool many_same_objects(const GuardSet& g, const Leaves& leaves) {
  SameTensors& last = ThreadObject<SameTensors>::get();
  last.look_at(leaves.tensors.span());
  return last.are(g.same_as);
}

// Whether the arguments are the same objects where they were, and distinct where they were. A
// 64-bit filter often finds out in one pass that all are distinct.
bool same_objects(const GuardSet& g, const Leaves& leaves) {
  constexpr size_t many = 32;
  if (g.tensors.size() < 2) return true;
  if (g.tensors.size() > many) return many_same_objects(g, leaves);
  uint64_t seen = 0;
  bool maybe_same = false;
  for (const Tensor* t : leaves.tensors.span()) {
    uint64_t bit =
        uint64_t{1} << ((reinterpret_cast<uint64_t>(t->head()) >> 6) * 0x9E3779B97F4A7C15u >> 58);
    maybe_same = maybe_same || (seen & bit);
    seen |= bit;
  }
  bool all_distinct = g.same_as.empty();
  if (!maybe_same) return all_distinct;
  TensorNumbers numbers;
  numbers.restart(leaves.tensors.size());
  for (uint32_t i = 0; i < leaves.tensors.size(); ++i)
    if (numbers.add(*leaves.tensors[i]) != (all_distinct ? i : g.same_as[i])) return false;
  return true;
}

// ---- conditions on symbolic sizes and numbers

SymbolLoad load_of(const SymbolSource& s) {
  using From = SymbolSource::Kind;
  using To = SymbolLoad::Kind;
  To kind = s.kind == From::input_size     ? To::size
            : s.kind == From::input_stride ? To::stride
            : s.kind == From::input_item   ? To::item
            : s.kind == From::body_number  ? To::body
                                           : To::number;
  return {kind, s.index, s.dim};
}

void record_sizes(GuardSet& g, const GuardedCall& call) {
  const ShapeEnv& env = call.env;
  std::vector<const Expr*> symbols = argument_symbols(env), conditions, outputs_of_program;
  for (const Expr* symbol : symbols) g.loads.push_back(load_of(env.info(symbol).source));
  auto is_from_input = [&](const Expr* symbol) { return env.info(symbol).is_from_input(); };
  for (const RecordedGuard& recorded : env.guard_conditions()) {
    // The others are about data of a body with graph breaks, which runs on every call.
    if (!std::ranges::all_of(free_symbols(recorded.condition), is_from_input)) continue;
    const Expr* condition = env.spelled_out(recorded.condition);
    if (condition->is_true()) continue;  // about the name of what is known
    if (!std::ranges::all_of(free_symbols(condition), is_from_input)) continue;
    if (g.add_number_condition(env, symbols, condition)) continue;
    conditions.push_back(condition);
    g.condition_texts.push_back(env.source_text(condition) +
                                (recorded.location.empty() ? "" : "  # " + recorded.location));
  }
  for (const SourceEquality& e : env.source_equalities()) {
    g.equal_loads.push_back(load_of(e.source));
    g.equal_texts.push_back(e.source_text + " == " + env.source_text(e.expr));
    outputs_of_program.push_back(e.expr);
  }
  g.program = SymProgram::compile(symbols, conditions, outputs_of_program);
}

std::string sizes_text(const GuardSet& g) {
  std::string out;
  for (const auto* texts : {&g.condition_texts, &g.equal_texts, &g.backend_texts})
    for (const std::string& c : *texts) out += c + "\n";
  return out;
}

// ---- the table

constexpr GuardKind kinds[] = {
    {.record = [](GuardSet& g, const GuardedCall&) { g.global = global_state(); },
     .check = [](const GuardSet& g, const Leaves&) { return global_state() == g.global; },
     .why = [](const GuardSet& g,
               const Leaves&) { return state_difference(g.global, global_state()); },
     .text = goes_without_saying},
    {.record = [](GuardSet& g, const GuardedCall&) { g.memory_budget = current_memory_budget; },
     .check = [](const GuardSet& g,
                 const Leaves&) { return current_memory_budget == g.memory_budget; },
     .why =
         [](const GuardSet& g, const Leaves&) {
           return message("memory budget: expected {}, found {}", budget_text(g.memory_budget),
                          budget_text(current_memory_budget));
         },
     .text = [](const GuardSet& g) -> std::string {
       return g.memory_budget ? "memory budget is " + budget_text(g.memory_budget) + "\n" : "";
     }},
    {.record = record_structure,
     .check = same_structure,
     .why = [](const GuardSet&, const Leaves&) -> std::string {
       return "the structure of the arguments changed (a container's size, an optional, an "
              "alternative)";
     },
     .text = goes_without_saying,
     .is_basis = true},
    {.record = record_tensors,
     .check = tensors_match,
     .why = why_tensors,
     .text = tensors_text,
     .every = every_tensor,
     .advice = advice_on_tensors},
    MarkGuards::kind,
    PlaceGuards::kind,
    Values<PlainValues>::kind,
    Values<Texts>::kind,
    Values<Numbers>::kind,
    {.record = record_same_objects,
     .check = same_objects,
     .why = [](const GuardSet&, const Leaves&) -> std::string {
       return "the arguments alias each other differently";
     },
     .text = goes_without_saying},
    {.record = record_sizes,
     .check = [](const GuardSet& g,
                 const Leaves& leaves) { return g.loads.empty() || g.sizes_hold(leaves); },
     .why = [](const GuardSet& g, const Leaves& leaves) { return g.why_sizes_fail(leaves); },
     .text = sizes_text},
};

// Written out row by row and in one piece, so that no row is called.
template <bool before_body, size_t... row>
[[gnu::flatten]] bool all_hold(const GuardSet& guards, const Leaves& leaves,
                               std::index_sequence<row...>) {
  return (((before_body && kinds[row].seen_in_body) || kinds[row].check(guards, leaves)) && ...);
}

constexpr auto rows = std::make_index_sequence<std::size(kinds)>();

}  // namespace

bool matches(const TensorGuard& g, const Tensor& t) {
  const detail::TensorHead* h = t.head();
  if (!h || !g.defined) return !h && !g.defined;
  if (!is_of_kind(g, t)) return false;
  const int64_t *sizes = h->sizes, *strides = h->strides;
  const int64_t *kept_sizes = g.sizes.data(), *kept_strides = g.strides.data();
  for (int32_t d = 0, n = g.ndim; d < n; ++d) {
    if (sizes[d] == kept_sizes[d] && strides[d] == kept_strides[d]) continue;
    if (sizes[d] != kept_sizes[d] && !(g.free_sizes >> d & 1)) return false;
    if (strides[d] != kept_strides[d] && !(g.free_strides >> d & 1)) return false;
  }
  return true;
}

GuardSet make_guards(const GuardedCall& call) {
  GuardSet guards;
  for (const GuardKind& kind : kinds) kind.record(guards, call);
  return guards;
}

bool GuardSet::check(const Leaves& leaves) const {
  if (plain_list) [[unlikely]]
    return why_not(leaves).empty();
  return all_hold<false>(*this, leaves, rows);
}

bool GuardSet::check_before_body(const Leaves& leaves) const {
  if (plain_list) [[unlikely]]
    return why_not_before_body(leaves).empty();
  return all_hold<true>(*this, leaves, rows);
}

std::string GuardSet::why_not(const Leaves& leaves) const {
  for (const GuardKind& kind : kinds)
    if (!kind.check(*this, leaves)) return kind.why(*this, leaves);
  return "";
}

std::string GuardSet::why_not_before_body(const Leaves& leaves) const {
  for (const GuardKind& kind : kinds)
    if (!kind.seen_in_body && !kind.check(*this, leaves)) return kind.why(*this, leaves);
  return "";
}

std::string_view GuardSet::advice(const Leaves& leaves) const {
  for (const GuardKind& kind : kinds)
    if (!kind.seen_in_body && !kind.check(*this, leaves))
      return kind.advice ? kind.advice(*this, leaves) : "";
  return "";
}

std::string GuardSet::every_failure(const Leaves& leaves) const {
  std::string out;
  for (const GuardKind& kind : kinds) {
    if (kind.check(*this, leaves)) continue;
    out += (out.empty() ? "" : "\n") + (kind.every ? kind.every : kind.why)(*this, leaves);
    if (kind.is_basis) break;
  }
  return out;
}

std::string GuardSet::to_text() const {
  std::string out;
  for (const GuardKind& kind : kinds) out += kind.text(*this);
  return out;
}

}  // namespace tenon
