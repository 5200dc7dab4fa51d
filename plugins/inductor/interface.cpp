// What is known of a kernel before its code: buffers, widths, units, cost, and its key.
#include "codegen.h"

#include <lanes/lane_ops.h>
#include <loopir/making/nest_key.h>
#include <tenon/plugin.hpp>

#include <algorithm>
#include <bit>
#include <map>

namespace inductor {

using loopir::Fold;
using loopir::Id;
using loopir::Ids;
using loopir::none;
using loopir::Stage;
using loopir::Statement;

namespace {

/// Values of a kernel that are computed for each element, and whether some are calls.
struct Effort {
  int operations = 0;
  bool has_calls = false;

  Effort(loopir::Expressions& x, const loopir::Kernel& kernel) {
    std::vector<bool> seen;
    std::vector<Id> open;
    for (const Stage& stage : kernel.stages)
      for (const Statement& s : stage.statements) open.push_back(s.value);
    while (!open.empty()) {
      Id v = open.back();
      open.pop_back();
      if (v >= seen.size()) seen.resize(v + 1);
      if (seen[v]) continue;
      seen[v] = true;
      const loopir::ValueNode n = x.value_at(v);
      for (Id o : loopir::operands_of(n).values)
        if (o != none) open.push_back(o);
      if (n.code >= loopir::value_load || n.a == none) continue;
      operations += lanes::is_math(n.code) ? std::max(lanes::math_cost(n.code) / 4, 4) : 1;
      has_calls |= lanes::is_called(n.code, x.dtype_of(n.a));
    }
  }
};

unsigned choose_width(loopir::Expressions& x, const loopir::Nest& nest, const Effort& effort,
                      int64_t lanes) {
  int64_t parts = effort.has_calls          ? 1
                  : effort.operations <= 8  ? 4
                  : effort.operations <= 40 ? 2
                                            : 1;
  int64_t extent = 1;  // of the longest vectorised loop, where it is known
  auto see = [&](Id v) {
    if (v == none) return;
    auto n = x.number_of(x.extent_of(v));
    extent = std::max(extent, n ? *n : lanes * 4);
  };
  see(nest.lanes);
  for (Id v : nest.lanes_of_stage) see(v);
  int64_t width = lanes * parts,
          needed = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(extent)));
  while (width > needed && width > 4) width /= 2;
  // A tail costs as much as a block: rather narrow blocks than a mostly empty one.
  while (parts > 1 && width > lanes && extent % width && extent < 4 * width) width /= 2;
  return static_cast<unsigned>(std::max<int64_t>(width, 1));
}

// Vector instructions of one unit.
double cost_of(loopir::Expressions& x, const loopir::Nest& nest, const Effort& effort,
               const KernelInterface& out) {
  auto points = [&](const Ids& variables) {
    int64_t n = 1;
    for (Id v : variables) n *= std::max<int64_t>(x.hint(x.extent_of(v)), 1);
    return n;
  };
  int64_t inner = 1;
  for (size_t s = 0; s < nest.kernel.stages.size(); ++s) {
    const Ids& variables = nest.kernel.stages[s].inner;
    bool is_scalar = !variables.empty() && nest.lanes == none && nest.lanes_of_stage[s] == none;
    inner = std::max(inner, points(variables) * (is_scalar ? 16 : 1));
  }
  bool units_are_blocks = nest.lanes != none && nest.kernel.outer.size() == 1;
  if (nest.lanes != none && !units_are_blocks) inner *= points({nest.lanes});
  double vectors = static_cast<double>(inner) *
                   (units_are_blocks ? static_cast<double>(out.width) / 16 : 1.0 / 16);
  return vectors * (effort.operations + 4.0 * static_cast<double>(out.buffers.size()));
}

// ---- results that go past the caches

/// Whether blocks of lanes begin at multiples of `elements`.
bool is_aligned(loopir::Expressions& x, Id index, Id lanes, int64_t elements) {
  loopir::Substitution start;
  bool has_lanes = false;
  for (Id v : x.variables_of_index(index)) {
    start.emplace_back(v, x.constant(0));
    has_lanes |= v == lanes;
    auto step = x.coefficient(index, v);
    auto n = step ? x.number_of(*step) : std::nullopt;
    if (!n || (v == lanes ? *n != 1 : *n % elements != 0)) return false;
  }
  auto first = x.number_of(x.substitute_index(index, start));
  return has_lanes && first && *first % elements == 0;
}

int64_t bytes_seen(const loopir::Program& program, const loopir::Buffer& buffer) {
  int64_t out = loopir::item_size(buffer.dtype);
  for (Id size : buffer.sizes) out *= program.expressions.hint(size);
  return out;
}

/// Outputs that are large and only written, whole aligned vectors at a time.
Ids streamed_by(loopir::Program& program, const loopir::Nest& nest,
                const KernelInterface& interface, int64_t near_bytes) {
  Ids read, out;
  std::map<Id, int> writers;
  for (const Stage& stage : nest.kernel.stages)
    for (const Statement& s : stage.statements) {
      loopir::add_loads(program.expressions, s.value, read);
      if (s.buffer != none) ++writers[s.buffer];
    }
  for (size_t i = 0; i < nest.kernel.stages.size(); ++i)
    for (const Statement& s : nest.kernel.stages[i].statements) {
      if (s.buffer == none || writers[s.buffer] > 1 || s.store != loopir::Store::set) continue;
      const loopir::Buffer& info = program.buffers[s.buffer];
      bool is_final = info.place == loopir::Buffer::Place::output &&
                      std::find(read.begin(), read.end(), s.buffer) == read.end();
      Id lanes = nest.lanes != none ? nest.lanes : nest.lanes_of_stage[i];
      int64_t size = loopir::item_size(info.dtype), vector = 64 / size;
      if (is_final && !s.is_scan && s.fold == Fold::none &&
          bytes_seen(program, info) > near_bytes && interface.width * size % 64 == 0 &&
          is_aligned(program.expressions, s.index, lanes, vector))
        out.push_back(s.buffer);
    }
  return out;
}

}  // namespace

int64_t lanes_for(const loopir::Program& program, const loopir::Kernel& kernel,
                  const CodeOptions& options) {
  int64_t bytes = 4;  // the widest element that is computed
  for (const Stage& stage : kernel.stages)
    for (const Statement& s : stage.statements) {
      int32_t dtype = program.expressions.dtype_of(s.value);
      if (dtype == TN_F64 || dtype == TN_I64) bytes = 8;
    }
  return options.vector_bits / 8 / bytes;
}

KernelInterface interface_of(loopir::Program& program, const loopir::Nest& nest,
                             const CodeOptions& options) {
  loopir::Expressions& x = program.expressions;
  Effort effort(x, nest.kernel);
  KernelInterface out;
  out.width = choose_width(x, nest, effort, lanes_for(program, nest.kernel, options));
  add_buffers(program, nest, out);
  out.units = units_of(program, nest, out.width);
  out.cost = cost_of(x, nest, effort, out);
  out.streamed = streamed_by(program, nest, out, options.near_bytes);
  return out;
}

// ---- keys

std::string text_of(const CodeOptions& o) {
  return tenon::plugin::text("{} {} bits {} effort {} numerics {}{}{}", o.cpu, o.features,
                             o.vector_bits, o.effort, o.contracts, o.multiplies_by_reciprocals,
                             o.rounds_narrow);
}

std::string key_of(loopir::Program& program, const loopir::Nest& nest,
                   const KernelInterface& interface, const CodeOptions& options) {
  return text_of(options) + "\n" +
         loopir::key_of(program, nest,
                        {.head = "width " + std::to_string(interface.width),
                         .buffers = interface.buffers,
                         .scratch_offsets = interface.scratch_offsets,
                         .past_caches = interface.streamed});
}

}  // namespace inductor
