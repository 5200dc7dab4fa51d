// Inputs that overlap in memory.
//
// Problem: a functional graph gives a written input a new value, which the other inputs over the
// same memory do not see. Method: inputs of one storage that overlap, directly or through others,
// form a group; a group of which the graph writes one is replaced by the memory itself, and each
// member becomes a strided view of it. Groups that are only read stay as they are. Cost: O(n²) in
// the inputs of one storage. Source: the synthetic bases of PyTorch's AOT autograd.
#include "aot/shared_inputs.h"

#include "core/error.h"
#include "core/sym/shape_env.h"
#include "core/sym/sym_int.h"
#include "graph/passes/aliasing.h"
#include "ops/op_table.h"
#include "ops/shapes.h"

#include <algorithm>
#include <optional>
#include <set>

namespace tenon {

namespace {

/// An input with its extent in plain numbers.
struct Member {
  uint32_t index;
  std::vector<int64_t> sizes, strides;
  int64_t offset, itemsize;
  Extent extent() const { return {sizes, strides, offset, itemsize}; }
};

int64_t hint(const Graph& graph, SymInt v) {
  if (!v.is_symbolic()) return v.word();
  return graph.shape_env ? graph.shape_env->int_hint(v).value_or(2) : 2;
}

Member member_of(const Graph& graph, uint32_t index) {
  const GraphValue& v = graph.value(graph.inputs()[index]);
  Member m{index, {}, {}, hint(graph, v.offset), static_cast<int64_t>(itemsize(v.meta.dtype))};
  for (SymInt s : v.meta.sizes) m.sizes.push_back(hint(graph, s));
  for (SymInt s : v.meta.strides) m.strides.push_back(hint(graph, s));
  return m;
}

bool has_shared_inputs(const Graph& graph) {
  return std::ranges::any_of(graph.inputs(),
                             [&](ValueId v) { return graph.value(v).alias_group != 0; });
}

// Those of the inputs that the written values may be views of.
void add_groups_of_inputs(const Graph& graph, const std::set<ValueId>& written_values,
                          std::set<uint32_t>& groups) {
  if (!has_shared_inputs(graph)) return;
  AliasClasses classes(graph);
  std::set<uint32_t> written;
  for (ValueId v : written_values) written.insert(classes.of(v));
  for (ValueId v : graph.inputs())
    if (written.contains(classes.of(v))) groups.insert(graph.value(v).alias_group);
}

// The alias groups of the values that nodes write. Graphs of archives tell those of inputs only,
// which nodes write through views, too.
std::set<uint32_t> written_groups(const Graph& graph) {
  std::set<uint32_t> groups;
  std::set<ValueId> written_values;
  for (const Node& node : graph.nodes()) {
    uint64_t written = written_args(node);
    for (size_t i = 0; i < node.args.size(); ++i)
      if (i < 64 && (written >> i & 1))
        for_each_value(node.args[i], [&](ValueId v) { written_values.insert(v); });
  }
  for (ValueId v : written_values) groups.insert(graph.value(v).alias_group);
  if (!written_values.empty() && !tells_aliases(graph))
    add_groups_of_inputs(graph, written_values, groups);
  groups.erase(0);
  return groups;
}

// Joins the groups that the new member overlaps into one.
void add_member(std::vector<std::vector<Member>>& groups, Member member) {
  std::vector<Member> joined;
  for (auto group = groups.begin(); group != groups.end();) {
    bool touches = std::any_of(group->begin(), group->end(), [&](const Member& other) {
      return may_overlap(other.extent(), member.extent());
    });
    if (touches) {
      joined.insert(joined.end(), group->begin(), group->end());
      group = groups.erase(group);
    } else {
      ++group;
    }
  }
  joined.push_back(std::move(member));
  groups.push_back(std::move(joined));
}

// Of the parts of a complex number; other dtypes stay what they are.
Dtype real_type(Dtype dtype) {
  return dtype == Dtype::c32    ? Dtype::f16
         : dtype == Dtype::c64  ? Dtype::f32
         : dtype == Dtype::c128 ? Dtype::f64
                                : dtype;
}

// Of the memory whose bits members show as numbers of several kinds. Integers, since a copy of them
// keeps every bit; a float that all are as wide as stays one, so that gradients flow through it.
Dtype dtype_of_bits(const std::vector<Dtype>& dtypes) {
  auto [narrowest, widest] = std::ranges::minmax_element(dtypes, {}, itemsize);
  const int64_t size = itemsize(*narrowest);
  if (itemsize(*widest) == size)
    for (Dtype dtype : dtypes)
      if (dtype == Dtype::f32 || dtype == Dtype::f64) return dtype;
  return size == 1 ? Dtype::u8 : size == 2 ? Dtype::i16 : size == 4 ? Dtype::i32 : Dtype::i64;
}

// One dtype for all, complex numbers and their parts, or bits.
void settle_dtype(const Graph& graph, SharedInput& shared) {
  std::vector<Dtype> dtypes;
  for (uint32_t m : shared.members) dtypes.push_back(graph.value(graph.inputs()[m]).meta.dtype);
  const Dtype first = dtypes[0];
  auto other = std::ranges::find_if(dtypes, [&](Dtype dtype) { return dtype != first; });
  auto has_other_parts = [&](Dtype dtype) { return real_type(dtype) != real_type(first); };
  auto bits = std::ranges::find_if(dtypes, has_other_parts);
  shared.dtype = other == dtypes.end() ? first : real_type(first);
  if (bits == dtypes.end()) return;
  require(std::ranges::none_of(dtypes, is_complex), ErrorCode::unsupported,
          "inputs {} and {} share memory that the graph writes, as {} and as {}; clone one of them",
          shared.members[0], shared.members[bits - dtypes.begin()], first, *bits);
  shared.dtype = dtype_of_bits(dtypes);
}

// How many elements of the memory's dtype one of this dtype is.
int64_t elements_in(Dtype memory, Dtype dtype) {
  return static_cast<int64_t>(itemsize(dtype) / itemsize(memory));
}

}  // namespace

std::vector<SharedInput> shared_inputs(const Graph& graph) {
  std::vector<SharedInput> out;
  for (uint32_t written : written_groups(graph)) {
    std::vector<std::vector<Member>> groups;
    for (uint32_t i = 0; i < graph.inputs().size(); ++i)
      if (graph.value(graph.inputs()[i]).alias_group == written)
        add_member(groups, member_of(graph, i));
    for (const std::vector<Member>& group : groups) {
      if (group.size() < 2) continue;
      SharedInput shared;
      for (const Member& m : group) shared.members.push_back(m.index);
      std::sort(shared.members.begin(), shared.members.end());
      settle_dtype(graph, shared);
      out.push_back(std::move(shared));
    }
  }
  return out;
}

SharedExtent extent_of(const Graph& graph, const SharedInput& shared) {
  auto value_of = [&](uint32_t m) -> const GraphValue& { return graph.value(graph.inputs()[m]); };
  auto width_of = [&](uint32_t m) { return elements_in(shared.dtype, value_of(m).meta.dtype); };
  auto begin_of = [&](uint32_t m) { return value_of(m).offset * width_of(m); };
  SymInt first = begin_of(shared.members[0]);
  int64_t widest = 1;
  for (uint32_t m : shared.members) {
    first = sym_min(first, begin_of(m));
    widest = std::max(widest, width_of(m));
  }
  if (widest > 1) first = first / widest * widest;  // an imaginary part is the second of its pair
  SymInt size = 0;
  for (uint32_t m : shared.members) {
    const GraphValue& v = value_of(m);
    SymInt last = v.offset;
    for (size_t d = 0; d < v.meta.sizes.size(); ++d)
      last = last + (v.meta.sizes[d] - 1) * v.meta.strides[d];
    size = sym_max(size, (last + 1) * width_of(m) - first);
  }
  return {first, size};
}

namespace {

SymInt span_of_values(const GraphValue& v) {
  SymInt span = 1;
  for (size_t d = 0; d < v.meta.sizes.size(); ++d)
    span = span + (v.meta.sizes[d] - 1) * v.meta.strides[d];
  return span;
}

// Whether a view by place certainly shows nothing but what the input shows, which has no gaps.
bool stays_within(const GraphValue& seen, const GraphValue& input) {
  SymInt elements = span_of_values(input);
  if (!guard_or_false(elements == product(list_of(input.meta.sizes)))) return false;
  const int64_t wide = itemsize(input.meta.dtype), own = itemsize(seen.meta.dtype);
  return guard_or_false(seen.offset * own >= input.offset * wide) &&
         guard_or_false((seen.offset + span_of_values(seen)) * own <=
                        (input.offset + elements) * wide);
}

// The position of the input that a node's result is a view of.
std::optional<uint32_t> viewed_input(const Graph& graph, const Node& node) {
  const uint32_t group = graph.value(node.first_result).alias_group;
  auto is_viewed = [&](const Value& a) {
    return a.tag == Tag::ref && graph.value(static_cast<ValueId>(a.payload)).alias_group == group;
  };
  for (const Node* at = &node; group != 0;) {
    auto viewed = std::ranges::find_if(at->args, is_viewed);
    if (viewed == at->args.end()) break;
    const GraphValue& v = graph.value(static_cast<ValueId>(viewed->payload));
    if (v.source == ValueSource::input) return v.source_index;
    if (v.source != ValueSource::node) break;
    at = &graph.node(v.source_index);
  }
  return std::nullopt;
}

}  // namespace

void check_reach(const Graph& functional, const std::set<uint32_t>& written) {
  if (written.empty()) return;
  for (const Node& node : functional.nodes()) {
    if (!(entry_of(node.op).def->tags & OpTags::by_place) || node.n_results == 0) continue;
    const GraphValue& seen = functional.value(node.first_result);
    std::optional<uint32_t> position = viewed_input(functional, node);
    if (!position || written.size() == written.count(*position)) continue;
    require(stays_within(seen, functional.value(functional.inputs()[*position])),
            ErrorCode::unsupported,
            "as_strided of an argument shows memory beyond it, where another argument that is "
            "written may lie; call it on the tensor that shows it all, or clone one of them");
  }
}

}  // namespace tenon
