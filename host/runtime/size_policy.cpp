// Deciding about symbols from marks, lists, options, flags and memory.
#include "runtime/size_policy.h"

#include "config/flags.h"
#include "core/error.h"
#include "core/sym/sym_range.h"
#include "core/tensor/tensor_impl.h"
#include "runtime/call.h"

#include <algorithm>
#include <bit>
#include <map>

namespace tenon {

using detail::Leaves;
using detail::Site;

void DynamicMemory::Cell::join(int64_t v) {
  if (state == State::unset) {
    state = State::value;
    value = v;
  } else if (state == State::value && value != v) {
    state = State::dynamic;
  }
}

void DynamicMemory::join(const detail::Leaves& leaves) {
  tensors.resize(std::max(tensors.size(), leaves.tensors.size()));
  for (size_t i = 0; i < leaves.tensors.size(); ++i) {
    if (!leaves.tensors[i]->defined()) continue;
    const detail::TensorHead* h = leaves.tensors[i]->head();
    TensorCells& cells = tensors[i];
    auto rank = static_cast<size_t>(h->ndim);
    if (!cells.sizes.empty() && cells.sizes.size() != rank) {
      cells.rank_changed = true;
      cells.sizes.assign(rank, {Cell::State::dynamic, 0});
      cells.strides.assign(rank, {});
    }
    cells.sizes.resize(rank, {cells.rank_changed ? Cell::State::dynamic : Cell::State::unset, 0});
    cells.strides.resize(rank);
    int64_t expected = 1;
    for (size_t d = rank; d-- > 0;) {
      cells.sizes[d].join(h->sizes[d]);
      // A dense stride is not a fact of its own: it follows the sizes.
      cells.strides[d].join(h->strides[d] == expected ? -1 : h->strides[d]);
      expected *= h->sizes[d];
    }
  }
  numbers.resize(std::max(numbers.size(), leaves.numbers.size()));
  for (size_t i = 0; i < leaves.numbers.size(); ++i) numbers[i].join(leaves.numbers[i].word());
  plain.resize(std::max(plain.size(), leaves.plain.size()));
  for (size_t i = 0; i < leaves.plain.size(); ++i)
    plain[i].join(static_cast<int64_t>(leaves.plain.span()[i].bits));
}

void DynamicMemory::join(const GivenNumbers& given) {
  if (given.places.empty()) return;
  std::set<NumberPlace> all(given.places.begin(), given.places.end());
  for (const SharedSize& size : given.shared_sizes) all.insert(size.place);
  if (body_numbers) all.insert(body_numbers->begin(), body_numbers->end());
  body_numbers = std::make_shared<const std::set<NumberPlace>>(std::move(all));
}

namespace {

bool lists(const std::vector<std::string>& names, const std::string& name) {
  return std::ranges::find(names, name) != names.end();
}

// The lists from outside of the program: arguments by name, as guards write them ("arg0",
// "arg0.size(1)", "number0"), and values.
bool names_size(const std::vector<std::string>& sources, size_t argument, size_t dim) {
  return !sources.empty() && (lists(sources, message("arg{}", argument)) ||
                              lists(sources, message("arg{}.size({})", argument, dim)));
}

bool named_dynamic(size_t argument, size_t dim, int64_t value) {
  const config::CompilerFlags& flags = config::flags().compiler;
  return names_size(flags.dynamic_sources, argument, dim) ||
         (!flags.dynamic_values.empty() && lists(flags.dynamic_values, std::to_string(value)));
}

DimPolicy automatic_policy(const Site& site, const DynamicMemory::Cell& cell) {
  const config::DynamoFlags& flags = config::flags().dynamo;
  if (site.options.dynamic == false) return DimPolicy::fixed;
  if (site.options.dynamic == true || !flags.assume_static_by_default) return DimPolicy::duck;
  if (!flags.automatic_dynamic_shapes) return DimPolicy::fixed;
  if (cell.state != DynamicMemory::Cell::State::dynamic) return DimPolicy::fixed;
  return flags.automatic_dynamic_shapes_mark_as == "unbacked" ? DimPolicy::unbacked
                                                              : DimPolicy::duck;
}

DimPolicy size_policy(const Site& site, const Tensor& tensor, size_t argument, size_t dim) {
  uint64_t bit = uint64_t{1} << dim;
  const TensorMarks* marks = marks_of(tensor);
  if (marks && (marks->fixed & bit)) return DimPolicy::fixed;
  if (marks && (marks->dynamic & bit)) return DimPolicy::own;
  if (marks && (marks->maybe_dynamic & bit)) return DimPolicy::alone;
  if (marks && (marks->unbacked & bit)) return DimPolicy::unbacked;
  if (names_size(config::flags().compiler.unbacked_sources, argument, dim))
    return DimPolicy::unbacked;
  int64_t size = tensor.head()->sizes[dim];
  DimPolicy policy = named_dynamic(argument, dim, size)
                         ? DimPolicy::duck
                         : automatic_policy(site, site.memory.tensors[argument].sizes[dim]);
  bool shared = config::flags().shapes.use_duck_shape;
  return policy == DimPolicy::duck && !shared ? DimPolicy::alone : policy;
}

void add_tensor(const Site& site, const Tensor& tensor, size_t argument, TracePolicy& policy) {
  auto& sizes = policy.sizes.emplace_back();
  auto& strides = policy.strides.emplace_back();
  if (!tensor.defined()) return;
  const DynamicMemory::TensorCells& cells = site.memory.tensors[argument];
  for (size_t d = 0; d < cells.sizes.size(); ++d)
    sizes.push_back(size_policy(site, tensor, argument, d));
  bool all_fixed = std::ranges::all_of(sizes, [](DimPolicy p) { return p == DimPolicy::fixed; });
  bool may_move = site.options.dynamic != false &&
                  (site.options.dynamic == true || config::flags().dynamo.automatic_dynamic_shapes);
  for (const DynamicMemory::Cell& cell : cells.strides) {
    bool moved = cell.state == DynamicMemory::Cell::State::dynamic;
    bool free = moved && all_fixed && may_move;
    strides.push_back(free ? DimPolicy::duck : DimPolicy::fixed);
  }
}

// What mark_unbacked says of sizes holds for the very call: code may take it for granted, and no
// guard is asked before the call that compiles.
void check_unbacked(const Leaves& leaves, const TracePolicy& policy) {
  struct Shared {
    int64_t size;
    std::string text;
  };
  std::map<std::string, Shared> of_shape_id;
  auto check = [&](size_t argument, size_t dim, const TensorMarks::Size& mark, int64_t size) {
    std::string text = message("arg{}.size({})", argument, dim);
    require(mark.min <= size && size <= mark.max, ErrorCode::constraint_violation,
            "{} is {}, but mark_unbacked declared it to lie in {}; pass a size inside or widen the "
            "range",
            text, size, Range{mark.min, mark.max});
    if (mark.shape_id.empty()) return;
    const Shared& first = of_shape_id.try_emplace(mark.shape_id, Shared{size, text}).first->second;
    require(first.size == size, ErrorCode::constraint_violation,
            "{} is {} and {} is {}, but mark_unbacked declared them equal by shape_id \"{}\"; pass "
            "equal sizes, or give them ids of their own",
            first.text, first.size, text, size, mark.shape_id);
  };
  for (size_t i = 0; i < leaves.tensors.size(); ++i) {
    const Tensor& t = *leaves.tensors[i];
    const TensorMarks* marks = t.defined() ? marks_of(t) : nullptr;
    if (!marks) continue;
    for (size_t d = 0; d < policy.sizes[i].size(); ++d)
      if (policy.sizes[i][d] == DimPolicy::unbacked)
        check(i, d, marks->size(d), t.head()->sizes[d]);
  }
}

// Whole numbers are equal to constants of the body for many reasons.
void add_changing(const DynamicMemory& memory, const Leaves& leaves, TracePolicy& policy) {
  for (size_t i = 0; i < leaves.plain.size(); ++i) {
    const detail::PlainLeaf& leaf = leaves.plain.span()[i];
    bool is_floating = leaf.kind == 1;
    if (is_floating && memory.plain[i].state == DynamicMemory::Cell::State::dynamic)
      policy.changing.push_back(std::bit_cast<double>(leaf.bits));
  }
}

bool is_symbolic_number(const Site& site, Number number, size_t index) {
  const config::Flags& flags = config::flags();
  if (lists(flags.compiler.dynamic_sources, message("number{}", index))) return true;
  if (number.is_integer() && lists(flags.compiler.dynamic_values, std::to_string(number.to_int())))
    return true;
  bool special = number.is_integer() ? flags.dynamo.specialize_int : flags.dynamo.specialize_float;
  bool moved = site.memory.numbers[index].state == DynamicMemory::Cell::State::dynamic;
  return !special && site.options.dynamic != false && (moved || site.options.dynamic == true);
}

}  // namespace

TracePolicy trace_policy(Site& site, const Leaves& leaves, bool backend_takes_symbols) {
  const config::Flags& flags = config::flags();
  site.memory.join(leaves);
  TracePolicy policy;
  policy.fullgraph = site.options.fullgraph;
  policy.captures_scalars =
      backend_takes_symbols && (flags.dynamo.capture_scalar_outputs || policy.fullgraph);
  policy.captures_shapes =
      backend_takes_symbols && (flags.dynamo.capture_dynamic_output_shape_ops || policy.fullgraph);
  policy.specialize_one = flags.shapes.specialize_one;
  policy.keep_empty = flags.dynamo.allow_empty_graphs || flags.dynamo.minimum_call_count == 0;
  for (size_t i = 0; i < leaves.tensors.size(); ++i)
    add_tensor(site, *leaves.tensors[i], i, policy);
  for (size_t i = 0; i < leaves.numbers.size(); ++i)
    policy.numbers.push_back(is_symbolic_number(site, leaves.numbers[i], i));
  add_changing(site.memory, leaves, policy);
  if (!backend_takes_symbols) {
    for (auto* all : {&policy.sizes, &policy.strides})
      for (auto& dims : *all) std::ranges::fill(dims, DimPolicy::fixed);
    policy.numbers.assign(policy.numbers.size(), false);
  }
  check_unbacked(leaves, policy);
  return policy;
}

}  // namespace tenon
