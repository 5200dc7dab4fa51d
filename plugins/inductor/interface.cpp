// What is known of a kernel before its code: buffers, widths, units, cost, and its key.
#include "codegen.h"
#include "emit/lane_ops.h"

#include <tenon/plugin.hpp>

#include <algorithm>
#include <bit>
#include <map>
#include <sstream>

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
      operations += is_math(n.code) ? std::max(math_cost(n.code) / 4, 4) : 1;
      has_calls |= is_called(n.code, x.dtype_of(n.a));
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

namespace {

/// A kernel in names that do not depend on the program around it.
class KeyWriter {
 public:
  KeyWriter(loopir::Program& program, const KernelInterface& interface)
      : program_(program), x_(program.expressions) {
    for (Id b : interface.buffers) buffers_.emplace(b, buffers_.size());
    for (const auto& [b, offset] : interface.scratch_offsets)
      buffers_.emplace(b, 1000000 + static_cast<size_t>(offset));
  }

  std::string run(const loopir::Nest& nest, const KernelInterface& interface) {
    out_ << "width " << interface.width;
    for (const auto& [b, number] : buffers_) declared_[number] = program_.buffers[b].dtype;
    for (const auto& [number, dtype] : declared_) out_ << " b" << number << ":" << dtype;
    for (Id b : interface.streamed) out_ << " past caches b" << buffers_.at(b);
    write_variables("\nouter", nest.kernel.outer);
    out_ << " lanes " << (nest.lanes == none ? "-" : name(nest.lanes));
    for (size_t s = 0; s < nest.kernel.stages.size(); ++s) {
      const Stage& stage = nest.kernel.stages[s];
      write_variables("\nstage", stage.inner);
      Id lanes = nest.lanes_of_stage[s];
      out_ << " lanes " << (lanes == none ? "-" : name(lanes));
      for (const Statement& statement : stage.statements) write(statement);
    }
    return out_.str();
  }

 private:
  void write_variables(const char* what, const Ids& variables) {
    out_ << what;
    for (Id v : variables) {
      variables_.emplace(v, variables_.size());
      std::string extent = index(x_.extent_of(v));
      out_ << " " << name(v) << "<" << extent;
    }
  }
  std::string name(Id variable) const { return "i" + std::to_string(variables_.at(variable)); }

  void write(const Statement& s) {
    std::string of = value(s.value);
    std::string at = s.index == none ? "" : index(s.index);
    std::string position = s.position == none ? "" : index(s.position);
    out_ << "\n f" << static_cast<int>(s.fold) << (s.is_scan ? "r" : "") << " s"
         << static_cast<int>(s.store) << " " << (s.folded == none ? -1 : static_cast<int>(s.folded))
         << " " << (s.buffer == none ? -1 : static_cast<int64_t>(buffers_.at(s.buffer))) << "["
         << at << "] " << position << " = " << of;
  }

  // Every value has a line of its own; the number of that line stands for it.
  std::string value(Id v) {
    if (auto known = values_.find(v); known != values_.end()) return known->second;
    const loopir::ValueNode n = x_.value_at(v);
    std::string line = std::to_string(n.code) + ":" + std::to_string(n.dtype);
    if (n.code == loopir::value_constant || n.code == loopir::value_folded ||
        n.code == loopir::value_real) {
      line += " " + std::to_string(n.a) + " " + std::to_string(n.b);
    } else {
      if (n.code == loopir::value_load) line += " b" + std::to_string(buffers_.at(n.a));
      loopir::Operands read = loopir::operands_of(n);
      if (read.index != none) line += " [" + index(read.index) + "]";
      for (Id o : read.values) line += o == none ? " -" : " " + value(o);
    }
    std::string number = "v" + std::to_string(values_.size());
    out_ << "\n" << number << " " << line;
    return values_[v] = number;
  }

  // A long one has a line of its own, as parts may be shared by many.
  std::string index(Id i) {
    constexpr size_t longest = 300;
    if (auto known = long_indices_.find(i); known != long_indices_.end()) return known->second;
    std::string line = index_line(i);
    if (line.size() <= longest) return line;
    std::string number = "x" + std::to_string(long_indices_.size());
    out_ << "\n" << number << " " << line;
    return long_indices_[i] = number;
  }
  std::string index_line(Id i) {
    const loopir::IndexNode n = x_.index_at(i);
    if (n.kind == loopir::IndexKind::variable) return name(i);
    std::string out = std::to_string(static_cast<int>(n.kind)) + "." + std::to_string(n.number);
    if (n.kind == loopir::IndexKind::value) return "(" + value(static_cast<Id>(n.number)) + ")";
    std::vector<std::string> operands;
    for (Id o : n.operands) operands.push_back(index(o));
    if (n.kind != loopir::IndexKind::floordiv && n.kind != loopir::IndexKind::mod)
      std::sort(operands.begin(), operands.end());
    for (const std::string& o : operands) out += " " + o;
    return "(" + out + ")";
  }

  loopir::Program& program_;
  loopir::Expressions& x_;
  std::map<Id, size_t> buffers_, variables_;
  std::map<size_t, int32_t> declared_;
  std::map<Id, std::string> values_, long_indices_;
  std::ostringstream out_;
};

}  // namespace

std::string text_of(const CodeOptions& o) {
  return tenon::plugin::text("{} {} bits {} effort {} numerics {}{}{}", o.cpu, o.features,
                             o.vector_bits, o.effort, o.contracts, o.multiplies_by_reciprocals,
                             o.rounds_narrow);
}

std::string key_of(loopir::Program& program, const loopir::Nest& nest,
                   const KernelInterface& interface, const CodeOptions& options) {
  return text_of(options) + "\n" + KeyWriter(program, interface).run(nest, interface);
}

}  // namespace inductor
