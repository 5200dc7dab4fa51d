// The saved form: magic, version, digest, then the fields.
//
// Kernels are saved as the relocatable objects that they were linked from. They are found again by
// their symbols, which are digests of what they compute.
#include "saved_form.h"

#include <loopir/making/digest.h>
#include "bytes.h"
#include "cpu_features.h"
#include "saved_fields.h"

#include <algorithm>
#include <set>

namespace inductor {

using tenon::plugin::error;
using tenon::plugin::text;

/// The object code of all kernels.
struct Code {
  std::vector<std::vector<std::string>> linked;  // what was linked together

  explicit Code() = default;
  explicit Code(const std::vector<KernelCode>& functions) {
    std::set<const LinkedCode*> seen;
    for (const KernelCode& f : functions)
      if (f.code && seen.insert(f.code.get()).second) linked.push_back(f.code->objects());
  }
};

template <class V>
void fields(V& v, Code& c) {
  v(c.linked);
}

namespace {

constexpr std::string_view magic = "inductor";
// Counts changes of the fields: code of another version is compiled anew.
constexpr uint32_t version = 5;
constexpr size_t digest_bytes = 32;

// ---- what calls rely on and the fields alone do not say

void expect(bool holds, const char* what) {
  if (!holds) Reader::fail(what);
}

void check_buffers(const loopir::Program& p) {
  using Place = loopir::Buffer::Place;
  for (const loopir::Buffer& b : p.buffers) {
    size_t slots = b.place == Place::input      ? p.n_inputs
                   : b.place == Place::constant ? p.constants.size()
                   : b.place == Place::output   ? p.outputs.size()
                                                : size_t{1} << 32;
    expect(b.slot < slots, "a buffer of an unknown input, constant or output");
    bool is_row = b.place == Place::scratch;  // of a kernel, which knows where its elements are
    expect(is_row || b.sizes.size() == b.strides.size(), "sizes without strides");
  }
  expect(p.memory_of.empty() || p.memory_of.size() == p.buffers.size(),
         "a list of buffers of another length");
  for (loopir::Id owner : p.memory_of)
    expect(owner == loopir::none || p.owner_of_memory(owner) == owner,
           "memory of a buffer that has none of its own");
}

// Each is made of earlier numbers of the table.
void check_reals(const loopir::Program& p) {
  size_t n = p.expressions.symbols.size();
  for (const loopir::Real& r : p.reals) {
    expect(r.op != loopir::Real::Op::index || r.index != loopir::none, "a number of no index");
    bool is_made = r.op > loopir::Real::Op::index;
    expect(!is_made || (r.a < n && r.b < n), "a number made of later ones");
    ++n;
  }
}

bool has_rank(const loopir::View& v, size_t n) {
  return v.sizes.size() == n && v.strides.size() == n;
}

void check_recurrence(const loopir::Recurrence& r) {
  expect(!r.directions.empty() && r.directions.size() <= 2, "a recurrent layer of no direction");
  bool has_cell = r.cell == loopir::Recurrence::Cell::lstm;
  for (const loopir::RecurrentDirection& d : r.directions) {
    bool fits = has_rank(d.input, 3) && has_rank(d.weights, 2) && has_rank(d.state, 2) &&
                has_rank(d.last_state, 2) && has_rank(d.result, 3) &&
                (!d.bias || has_rank(*d.bias, 1)) && d.cell.has_value() == has_cell &&
                d.last_cell.has_value() == has_cell &&
                (!has_cell || (has_rank(*d.cell, 2) && has_rank(*d.last_cell, 2)));
    expect(fits, "a recurrent layer of other shapes");
  }
}

void check_items(const Parts& parts) {
  size_t n = parts.schedule.items.size();
  expect(parts.accesses.size() == n && parts.kernels.size() == n && parts.is_prepacked.size() == n,
         "lists of items of different lengths");
  for (size_t i = 0; i < n; ++i) {
    const loopir::Item& item = parts.schedule.items[i];
    bool has_code = std::holds_alternative<loopir::Kernel>(item);
    expect(has_code == !parts.kernels[i].symbol.empty(), "a kernel without code");
    expect(parts.externs.contains(i) == std::holds_alternative<loopir::Extern>(item),
           "an op without arguments");
    if (auto* product = std::get_if<loopir::Product>(&item))
      expect(loopir::problem_of(parts.program, *product).empty(), "a product of unknown dtypes");
    if (auto* recurrence = std::get_if<loopir::Recurrence>(&item)) check_recurrence(*recurrence);
  }
  for (const Region& r : parts.regions)
    expect(r.first <= r.last && r.last < n && r.units.size() == r.last - r.first + 1 &&
               r.rows != loopir::none && r.granule > 0,
           "a region of items that are not there");
}

// Whether it was made for a graph like this one.
void check_request(const loopir::Program& p, const tenon::plugin::graph& graph) {
  expect(p.n_inputs == graph.inputs().size() && p.outputs.size() == graph.outputs().size() &&
             p.is_static_input.size() == p.n_inputs && p.n_symbols == graph.symbols().size() &&
             p.expressions.symbols.size() == p.n_symbols,
         "the code of a graph with other inputs or outputs");
  for (const loopir::Buffer& b : p.buffers) {
    if (b.place != loopir::Buffer::Place::input) continue;
    tenon::plugin::value v = graph.value_at(graph.inputs()[b.slot]);
    expect(v.is_tensor() && v.dtype == b.dtype && v.dims().size() == b.sizes.size(),
           "the code of a graph whose inputs have other dtypes or dimensions");
  }
}

// In the order of their numbers; ids of values are the graph's own.
void bind_constants(loopir::Program& p, const tenon::plugin::graph& graph) {
  std::map<uint32_t, uint32_t> values;
  for (uint32_t id = 0; id < graph.values(); ++id) {
    tenon::plugin::value v = graph.value_at(id);
    if (v.source == TN_SRC_CONSTANT && v.is_tensor()) values[v.source_index] = id;
  }
  for (auto [number, id] : values) p.constants.push_back(graph.constant(id));
}

// Code that several kernels came from is linked once.
void link(Parts& parts, Code& code) {
  std::vector<std::shared_ptr<const LinkedCode>> linked;
  for (std::vector<std::string>& objects : code.linked)
    linked.push_back(std::make_shared<const LinkedCode>(std::move(objects)));
  for (const KernelInterface& k : parts.kernels) {
    KernelCode& out = parts.functions.emplace_back();
    if (k.symbol.empty()) continue;
    auto has = [&](const auto& l) { return l->has(k.symbol); };
    auto found = std::find_if(linked.begin(), linked.end(), has);
    expect(found != linked.end(), "a kernel without code");
    out = {(*found)->find(k.symbol), *found};
  }
}

}  // namespace

std::string saved_form(Parts& parts) {
  Writer writer(parts.program.expressions);
  Code code(parts.functions);
  writer(parts);
  writer(code);
  std::string body = writer.take();
  std::string out(magic);
  out.append(reinterpret_cast<const char*>(&version), sizeof version);
  return out + loopir::digest(out + body) + body;
}

void bind_loaded(Parts& parts, const tn_compile_request& request) {
  tenon::plugin::graph graph(request);
  bind_constants(parts.program, graph);
  check_buffers(parts.program);
  check_request(parts.program, graph);
  check_reals(parts.program);
  check_items(parts);
  for (auto& [item, call] : parts.externs) call.link(parts.program);
  parts.options.profiles = tenon::plugin::options(request).get<bool>("profile");
  parts.statistics.from_cache = true;
}

std::unique_ptr<Executable> load_executable(const tn_compile_request& request,
                                            std::string_view bytes) {
  constexpr size_t head = magic.size() + sizeof version;
  expect(bytes.size() >= head + digest_bytes && bytes.starts_with(magic), "no code of inductor");
  std::string_view body = bytes.substr(head + digest_bytes);
  std::string whole(bytes.substr(0, head));
  expect(loopir::digest(whole.append(body)) == bytes.substr(head, digest_bytes),
         "the bytes are damaged");
  uint32_t found = 0;
  std::memcpy(&found, bytes.data() + magic.size(), sizeof found);
  if (found != version)
    throw error(TN_FAILED_PRECONDITION,
                text("saved code has version {}, this plugin runs version {}; compile it again",
                     found, version));
  Reader reader(body);
  Parts parts;
  Code code;
  reader(parts);
  reader(code);
  reader.finish();
  bind_loaded(parts, request);
  std::string missing = missing_features(parts.options.code.features);
  if (!missing.empty())
    throw error(TN_FAILED_PRECONDITION,
                text("the code is for the processor {}; this one lacks {}; compile it for a lower "
                     "level, such as cpu = \"x86-64-v3\"",
                     parts.options.code.cpu, missing));
  link(parts, code);
  return std::make_unique<Executable>(std::move(parts));
}

}  // namespace inductor
