// Heads, constants, and what calls rely on that the fields alone do not say.
#include "saved_program.h"

#include "bytes.h"

#include "loopir/making/digest.h"

#include <tenon/plugin.hpp>

#include <algorithm>
#include <cstring>
#include <map>

namespace loopir {

using tenon::plugin::error;
using tenon::plugin::text;

namespace {

constexpr size_t digest_bytes = 32;

bool is_whole(const Ids& ids) { return std::ranges::find(ids, none) == ids.end(); }

/// Visitor that wants every view of a buffer to say where it is.
class WholeViews {
 public:
  template <class T>
  void operator()(T& x) {
    if constexpr (std::is_same_v<T, View>) {
      expect_saved(x.buffer == none || (x.offset != none && is_whole(x.sizes) &&
                                        is_whole(x.strides) && x.sizes.size() == x.strides.size()),
                   "a view of nowhere");
    } else if constexpr (detail::is_vector<T> && !std::is_same_v<T, std::vector<bool>>) {
      for (auto& item : x) (*this)(item);
    } else if constexpr (detail::is_optional<T>) {
      if (x) (*this)(*x);
    } else if constexpr (std::is_class_v<T> && !std::is_same_v<T, std::string> &&
                         !std::is_same_v<T, std::vector<bool>>) {
      fields(*this, x);
    }
  }
  template <class E>
  void choice(E&, E) {}
  void index(Id&) {}
  void indices(Ids&) {}
  void buffer(Id&) {}
  void maybe_buffer(Id&) {}
  void buffers(Ids&) {}
};

void check_saved_buffers(const Program& p) {
  using Place = Buffer::Place;
  for (const Buffer& b : p.buffers) {
    bool is_of_caller = b.place == Place::input || b.place == Place::number;
    size_t slots = is_of_caller                 ? p.n_inputs
                   : b.place == Place::constant ? p.constants.size()
                   : b.place == Place::output   ? p.outputs.size()
                                                : size_t{1} << 32;
    expect_saved(b.slot < slots, "a buffer of an unknown input, constant or output");
    bool is_row = b.place == Place::scratch;  // of a kernel, which knows where its elements are
    expect_saved(is_row || b.sizes.size() == b.strides.size(), "sizes without strides");
    expect_saved(is_row || (is_whole(b.sizes) && is_whole(b.strides)), "a buffer of no size");
  }
  for (Output o : p.outputs) {
    expect_saved(o.kind == Output::Kind::absent || o.view.buffer != none, "a result of no buffer");
    if (o.kind == Output::Kind::view) WholeViews()(o.view);
  }
  expect_saved(p.memory_of.empty() || p.memory_of.size() == p.buffers.size(),
               "a list of buffers of another length");
  for (Id owner : p.memory_of)
    expect_saved(owner == none || p.owner_of_memory(owner) == owner,
                 "memory of a buffer that has none of its own");
}

// Each is made of earlier numbers of the table.
void check_saved_reals(const Program& p) {
  size_t n = p.expressions.symbols.size();
  for (const Real& r : p.reals) {
    using Op = Real::Op;
    bool has_index = r.op == Op::index || r.op == Op::seed;
    expect_saved(!has_index || r.index != none, "a number of no index");
    bool follows_seed = &r != p.reals.data() && (&r)[-1].op == Op::seed;
    expect_saved((r.op == Op::first_block) == follows_seed, "a draw without its seed");
    bool is_made = r.op > Op::index && r.op < Op::seed;
    expect_saved(!is_made || (r.a < n && r.b < n), "a number made of later ones");
    ++n;
  }
  expect_saved(p.reals.empty() || p.reals.back().op != Real::Op::seed, "a seed without its draw");
}

bool has_rank(const View& v, size_t n) { return v.sizes.size() == n && v.strides.size() == n; }

void check_saved_recurrence(const Recurrence& r) {
  expect_saved(!r.directions.empty() && r.directions.size() <= 2,
               "a recurrent layer of no direction");
  bool has_cell = r.cell == Recurrence::Cell::lstm;
  for (const RecurrentDirection& d : r.directions) {
    bool fits = has_rank(d.input, 3) && has_rank(d.weights, 2) && has_rank(d.state, 2) &&
                has_rank(d.last_state, 2) && has_rank(d.result, 3) &&
                (!d.bias || has_rank(*d.bias, 1)) && d.cell.has_value() == has_cell &&
                d.last_cell.has_value() == has_cell &&
                (!has_cell || (has_rank(*d.cell, 2) && has_rank(*d.last_cell, 2)));
    expect_saved(fits, "a recurrent layer of other shapes");
  }
}

// Whether it was made for a graph like this one.
void check_graph_of_saved(const Program& p, const tenon::plugin::graph& graph) {
  expect_saved(p.n_inputs == graph.inputs().size() && p.outputs.size() == graph.outputs().size() &&
                   p.is_static_input.size() == p.n_inputs &&
                   p.n_symbols == graph.symbols().size() &&
                   p.expressions.symbols.size() == p.n_symbols,
               "the code of a graph with other inputs or outputs");
  for (const Buffer& b : p.buffers) {
    if (b.place != Buffer::Place::input && b.place != Buffer::Place::number) continue;
    tenon::plugin::value v = graph.value_at(graph.inputs()[b.slot]);
    bool is_same = v.is_tensor() && v.dtype == b.dtype &&
                   (b.place == Buffer::Place::number || v.dims().size() == b.sizes.size());
    expect_saved(is_same, "the code of a graph whose inputs have other dtypes or dimensions");
  }
}

// In the order of their numbers; ids of values are the graph's own.
void bind_saved_constants(Program& p, const tenon::plugin::graph& graph) {
  std::map<uint32_t, uint32_t> values;
  for (uint32_t id = 0; id < graph.values(); ++id) {
    tenon::plugin::value v = graph.value_at(id);
    if (v.source == TN_SRC_CONSTANT && v.is_tensor()) values[v.source_index] = id;
  }
  for (auto [number, id] : values) p.constants.push_back(graph.constant(id));
}

}  // namespace

std::string with_head(const SavedHead& head, std::string_view body) {
  std::string out(head.magic);
  out.append(reinterpret_cast<const char*>(&head.version), sizeof head.version);
  std::string whole = out;
  return out + digest(whole.append(body)) + std::string(body);
}

std::string_view body_of(const SavedHead& head, std::string_view bytes) {
  const size_t before = head.magic.size() + sizeof head.version;
  bool is_ours = bytes.size() >= before + digest_bytes && bytes.starts_with(head.magic);
  if (!is_ours)
    throw error(
        TN_DATA_LOSS,
        text("saved code: it does not begin as code of {} does; compile it again", head.magic));
  std::string_view body = bytes.substr(before + digest_bytes);
  std::string whole(bytes.substr(0, before));
  expect_saved(digest(whole.append(body)) == bytes.substr(before, digest_bytes),
               "the bytes are damaged");
  uint32_t found = 0;
  std::memcpy(&found, bytes.data() + head.magic.size(), sizeof found);
  if (found != head.version)
    throw error(TN_FAILED_PRECONDITION,
                text("saved code has version {}, this plugin runs version {}; compile it again",
                     found, head.version));
  return body;
}

void expect_saved(bool holds, const char* what) {
  if (!holds) throw error(TN_DATA_LOSS, std::string("saved code: ") + what);
}

void bind_saved(Program& program, const tn_compile_request& request) {
  tenon::plugin::graph graph(request);
  bind_saved_constants(program, graph);
  check_saved_buffers(program);
  check_graph_of_saved(program, graph);
  check_saved_reals(program);
}

void check_saved(const Program& program, const Item& item, Multiplier by) {
  // Fields are those of structs that may change; this visitor looks at them.
  std::visit([](auto& step) { WholeViews()(step); }, const_cast<Item&>(item));
  auto has_functions = [&](const std::vector<EpilogueOp>& ops) {
    return by == Multiplier::any ||
           std::ranges::find(ops, EpilogueOp::Kind::gelu_tanh, &EpilogueOp::kind) == ops.end();
  };
  auto* product = std::get_if<Product>(&item);
  expect_saved(!product || problem_of(program, *product, by).empty(),
               "a product of unknown dtypes");
  auto* convolution = std::get_if<Convolution>(&item);
  expect_saved((!product || has_functions(product->epilogue)) &&
                   (!convolution || has_functions(convolution->epilogue)),
               "a function that CPUs have no routine for");
  if (auto* recurrence = std::get_if<Recurrence>(&item)) check_saved_recurrence(*recurrence);
}

}  // namespace loopir
