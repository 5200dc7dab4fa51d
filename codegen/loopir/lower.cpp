// A graph as a program: inputs, the rules of its nodes, outputs.
#include "loopir/lower/update.h"
#include "lowering.h"
#include "storage.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <unordered_map>

namespace loopir {

using tenon::plugin::declined;
using tenon::plugin::node;
using tenon::plugin::sv;
using tenon::plugin::text;
using tenon::plugin::value;

namespace {

/// Tells the loops from `first` on whose work they do.
void mark_loops(Program& program, size_t first, const std::set<uint32_t>& nodes) {
  for (size_t s = first; s < program.steps.size(); ++s)
    if (auto* loop = std::get_if<Loop>(&program.steps[s])) loop->nodes = nodes;
}

// Steps whose results nobody reads and that do nothing else. A draw moves the generator on.
void drop_dead_steps(Program& program) {
  std::vector<bool> live(program.buffers.size(), false);
  for (const Output& o : program.outputs)
    if (o.kind != Output::Kind::absent) live[o.view.buffer] = true;
  std::vector<Step> kept;
  for (size_t i = program.steps.size(); i-- > 0;) {
    Access access = access_of(program, program.steps[i]);
    auto* op = std::get_if<Extern>(&program.steps[i]);
    bool wanted = op && (op->is_ordered || access.writes.empty());
    for (Id b : access.writes) wanted |= live[b];
    if (!wanted) continue;
    for (Id b : access.reads) live[b] = true;
    kept.push_back(std::move(program.steps[i]));
  }
  std::reverse(kept.begin(), kept.end());
  program.steps = std::move(kept);
}

/// The walk over one graph.
class GraphLowering {
 public:
  GraphLowering(Program& program, const tn_compile_request& request, const LoweringOptions& options)
      : program_(program),
        graph_(request),
        to_(program, request, options),
        nodes_of_(graph_.values()),
        is_seen_by_place_(values_seen_by_place(graph_)) {}

  void run();

 private:
  void lower_inputs();
  void count_reads();
  void find_overlaps();
  void lower_node(uint32_t number, const node& node);
  void lower_node_by_rules(const node& node);
  std::vector<uint32_t> find_memory() const;
  std::map<Id, uint32_t> find_given();
  void lower_outputs();
  bool is_update(const node& n);
  void lower_update(const node& n);

  Program& program_;
  tenon::plugin::graph graph_;
  Lowering to_;
  std::vector<uint32_t> memory_;  // by graph value, see find_memory()
  /// By graph value: the nodes whose work its expression stands for.
  std::vector<std::set<uint32_t>> nodes_of_;
  std::vector<bool> is_seen_by_place_;  // by graph value
};

}  // namespace

void GraphLowering::run() {
  to_.tensors.resize(graph_.values());
  lower_inputs();
  count_reads();
  memory_ = find_memory();
  find_overlaps();
  std::vector<uint32_t> updates;
  for (uint32_t i = 0; i < graph_.size(); ++i) {
    node n = graph_.at(i);
    if (n.tags & (TN_TAG_HIGHER_ORDER | TN_TAG_DATA_DEPENDENT))
      throw declined(text("{} is not compiled", sv(n.op_name)));
    if (is_update(n))
      updates.push_back(i);
    else
      lower_node(i, n);
  }
  lower_outputs();
  for (uint32_t i : updates) lower_update(graph_.at(i));
}

// Whether a node gives an input its new value: graphs that write inputs do so at their end.
bool GraphLowering::is_update(const node& n) {
  bool is = copies_into_first(sv(n.op_name)) && to_.is_tensor(n.args[0]) &&
            to_.is_tensor(n.args[1]) && graph_.value_at(n.args[0].u.value).source == TN_SRC_INPUT;
  if (is) to_.tensors[n.first_result] = to_.tensors[n.args[1].u.value];
  return is;
}

// The value in memory of its own, laid out as the input is, then a copy by the host. Outputs and
// other new values have been computed by then: their expressions read what the input was.
void GraphLowering::lower_update(const node& n) {
  value to = graph_.value_at(n.args[0].u.value);
  uint32_t from = n.args[1].u.value;
  Tensor t = *to_.tensors[from];
  auto view = to_.as_view(t);
  auto place = view ? program_.buffers[view->buffer].place : Buffer::Place::input;
  bool is_own = place == Buffer::Place::temporary || place == Buffer::Place::output;
  if (!is_own && t.dtype == to.dtype) {
    Id buffer = program_.add_buffer(
        {Buffer::Place::temporary, 0, t.dtype, to_.arguments.indices_of(to.dims()),
         to_.arguments.indices_of(to.stride_dims()), std::string(sv(to.name))});
    size_t first = program_.steps.size();
    to_.tensors[from] = to_.stored(t, buffer, program_.buffers[buffer].name.c_str());
    mark_loops(program_, first, nodes_of_[from]);
  }
  lower_extern(to_, n);
  auto& copy = std::get<Extern>(program_.steps.back());
  copy.has_effect = copy.is_ordered = true;
  copy.results = {none};
}

void GraphLowering::lower_inputs() {
  to_.arguments.import_symbols();
  program_.n_symbols = static_cast<uint32_t>(to_.x.symbols.size());
  program_.n_inputs = static_cast<uint32_t>(graph_.inputs().size());
  for (uint32_t id = 0; id < graph_.values(); ++id) {
    value v = graph_.value_at(id);
    if (!v.is_tensor() || v.source == TN_SRC_NODE) continue;
    bool is_here = v.device_type == to_.options.device_type;
    bool is_number = !is_here && v.device_type == TN_DEV_CPU && v.ndim == 0;
    if (!is_here && !is_number)
      throw declined(to_.options.device_type == TN_DEV_CPU
                         ? "a tensor is not on the CPU"
                         : "a tensor is on another device than the graph");
    Buffer b{v.source == TN_SRC_CONSTANT ? Buffer::Place::constant
             : is_number                 ? Buffer::Place::number
                                         : Buffer::Place::input,
             v.source_index,
             v.dtype,
             to_.arguments.indices_of(v.dims()),
             to_.arguments.indices_of(v.stride_dims()),
             std::string(sv(v.name))};
    if (v.source == TN_SRC_CONSTANT) {
      b.slot = static_cast<uint32_t>(program_.constants.size());
      program_.constants.push_back(graph_.constant(id));
      const tn_tensor* t = program_.constants.back().get();
      bool is_readable = t->ndim == 0 && t->device_type == TN_DEV_CPU;
      if (is_readable && (t->dtype == TN_F32 || t->dtype == TN_F64 || t->dtype == TN_I64)) {
        Id number = t->dtype == TN_I64 ? to_.x.number(*static_cast<int64_t*>(t->data), TN_I64)
                    : t->dtype == TN_F32
                        ? to_.x.number(static_cast<double>(*static_cast<float*>(t->data)), TN_F32)
                        : to_.x.number(*static_cast<double*>(t->data), TN_F64);
        to_.tensors[id] = Tensor{t->dtype, {}, {}, number};
        continue;
      }
      if (is_number) throw declined("a constant of one element is on another device");
    }
    to_.tensors[id] = to_.over(program_.add_buffer(std::move(b)));
  }
  for (uint32_t id : graph_.inputs()) {
    uint32_t flags = graph_.value_at(id).flags;
    program_.is_static_input.push_back(
        (flags & (TN_V_PARAMETER | TN_V_BUFFER | TN_V_STATIC_ADDRESS)) && !(flags & TN_V_MUTATED));
  }
}

void GraphLowering::count_reads() {
  to_.reads.assign(graph_.values(), 0);
  to_.is_output.assign(graph_.values(), false);
  for (uint32_t v : graph_.outputs())
    if (v != TN_NO_VALUE) to_.is_output[v] = true;
  for (uint32_t i = graph_.size(); i-- > 0;) {
    node n = graph_.at(i);
    bool is_view = (n.tags & TN_TAG_VIEW) != 0;
    uint32_t through = 0;
    for (uint32_t r = 0; r < n.n_results; ++r)
      through += to_.reads[n.first_result + r] + to_.is_output[n.first_result + r];
    for_each_operand(n, [&](uint32_t v) { to_.reads[v] += is_view ? std::max(through, 1u) : 1; });
  }
}

// Elements that overlap, as in windows, have one writer where they are a view of what is in memory.
// Examples of no or one element would hide it.
void GraphLowering::find_overlaps() {
  std::vector<int64_t> examples;
  for (const Symbol& s : to_.x.symbols)
    examples.push_back(std::max(s.hint, std::min<int64_t>(s.upper, 2)));
  to_.is_under_overlap.assign(graph_.values(), false);
  for (uint32_t id : graph_.outputs()) {
    if (id == TN_NO_VALUE || !graph_.value_at(id).is_tensor()) continue;
    value v = graph_.value_at(id);
    Ids sizes = to_.arguments.indices_of(v.dims()),
        strides = to_.arguments.indices_of(v.stride_dims());
    std::vector<std::pair<int64_t, int64_t>> steps;  // stride, size
    for (size_t d = 0; d < sizes.size(); ++d)
      if (int64_t size = to_.x.evaluate(sizes[d], examples),
          step = to_.x.evaluate(strides[d], examples);
          size > 1 && step > 0)
        steps.emplace_back(step, size);
    std::sort(steps.begin(), steps.end());
    int64_t reach = 0;
    for (auto [step, size] : steps) {
      if (step <= reach) to_.is_under_overlap[memory_[id]] = true;
      reach += step * (size - 1);
    }
  }
}

void GraphLowering::lower_node_by_rules(const node& n) {
  static const auto& rules = *new std::unordered_map<std::string_view, const Rule*>([] {
    std::unordered_map<std::string_view, const Rule*> out;
    for (std::span<const Rule> list :
         {view_rules(), copy_rules(), reduce_rules(), scan_rules(), scatter_rules(), bag_rules(),
          norm_rules(), index_rules(), pool_rules(), pool_backward_rules(), pad_rules(),
          resample_rules(), loss_rules(), matrix_rules(), attention_rules(), recurrent_rules(),
          storage_rules(), random_rules()})
      for (const Rule& rule : list) out.emplace(rule.op, &rule);
    return out;
  }());
  auto rule = rules.find(sv(n.op_name));
  try {
    if (rule != rules.end() ? rule->second->lower(to_, n) : lower_formula(to_, n)) return;
  } catch (const declined&) {
    // An argument that a rule wants to know is known at run time only. The host takes it; what the
    // rule has begun is read by nobody.
  }
  lower_extern(to_, n);
}

void GraphLowering::lower_node(uint32_t number, const node& n) {
  std::set<uint32_t> nodes{number};
  for_each_operand(n, [&](uint32_t v) { nodes.insert(nodes_of_[v].begin(), nodes_of_[v].end()); });
  size_t first = program_.steps.size();
  auto first_new = static_cast<Id>(program_.buffers.size());
  bool is_view = (n.tags & TN_TAG_VIEW) != 0;  // no work; its result is its operand's memory
  if (to_.options.externs.contains(number) && !is_view)
    lower_extern(to_, n);
  else
    lower_node_by_rules(n);
  for (uint32_t r = 0; r < n.n_results; ++r)
    if (is_seen_by_place_[n.first_result + r])
      lay_out_as_promised(to_, n.first_result + r, first_new);
  mark_loops(program_, first, nodes);
  for (uint32_t r = 0; r < n.n_results; ++r) {
    Id v = n.first_result + r;
    if (to_.tensors[v] && !to_.as_view(*to_.tensors[v])) nodes_of_[v] = nodes;
  }
}

// By value: whose memory it is in the graph. A copy is the same to those that read it, but as an
// output it is memory of its own.
std::vector<uint32_t> GraphLowering::find_memory() const {
  std::vector<uint32_t> memory(graph_.values());
  std::iota(memory.begin(), memory.end(), 0u);
  for (uint32_t i = 0; i < graph_.size(); ++i) {
    node n = graph_.at(i);
    bool passes_on = (n.tags & (TN_TAG_VIEW | TN_TAG_MAYBE_ALIAS)) != 0;
    if (!passes_on || n.arguments().empty() || !to_.is_tensor(n.args[0])) continue;
    for (uint32_t r = 0; r < n.n_results; ++r)
      memory[n.first_result + r] = memory[n.args[0].u.value];
  }
  return memory;
}

// By buffer: whose memory it is, of inputs, constants and what the host makes as a view of others.
std::map<Id, uint32_t> GraphLowering::find_given() {
  std::map<Id, uint32_t> given;
  auto buffer_of = [&](uint32_t id) {
    auto view = to_.tensors[id] ? to_.as_view(*to_.tensors[id]) : std::nullopt;
    return view ? view->buffer : none;
  };
  for (uint32_t id = 0; id < graph_.values(); ++id) {
    bool is_made = graph_.value_at(id).source == TN_SRC_NODE;
    if (is_made && memory_[id] == id) continue;
    Id buffer = buffer_of(id);
    if (buffer == none) continue;
    bool is_view_of_host = program_.buffers[buffer].place == Buffer::Place::foreign &&
                           buffer_of(memory_[id]) != buffer;
    if (!is_made || is_view_of_host) given.emplace(buffer, memory_[id]);
  }
  return given;
}

// An output that lies in memory as promised is that memory, or a view of it; else it is copied.
void GraphLowering::lower_outputs() {
  std::span<const uint32_t> ids = graph_.outputs();
  std::map<Id, uint32_t> given = find_given();
  for (uint32_t slot = 0; slot < ids.size(); ++slot) {
    Output out;
    if (ids[slot] == TN_NO_VALUE) {
      program_.outputs.push_back(out);
      continue;
    }
    value v = graph_.value_at(ids[slot]);
    if (!v.is_tensor()) throw declined("an output is not a tensor");
    Tensor t = *to_.tensors[ids[slot]];
    Ids sizes = to_.arguments.indices_of(v.dims()),
        strides = to_.arguments.indices_of(v.stride_dims());
    auto view = to_.as_view(t);
    bool as_promised =
        view && given.emplace(view->buffer, memory_[ids[slot]]).first->second == memory_[ids[slot]];
    for (size_t d = 0; view && d < sizes.size(); ++d)
      as_promised &= to_.x.is(sizes[d], 1) || view->strides[d] == strides[d];
    if (as_promised) {
      Buffer& b = program_.buffers[view->buffer];
      if (b.place == Buffer::Place::temporary) b.place = Buffer::Place::output, b.slot = slot;
      view->strides = strides;
    } else {
      Id buffer = program_.add_buffer(
          {Buffer::Place::output, slot, v.dtype, sizes, strides, std::string(sv(v.name))});
      size_t first = program_.steps.size();
      to_.stored(t, buffer, program_.buffers[buffer].name.c_str());
      mark_loops(program_, first, nodes_of_[ids[slot]]);
      view = to_.whole(buffer);
    }
    const Buffer& b = program_.buffers[view->buffer];
    bool is_all = b.place == Buffer::Place::output && b.slot == slot && b.sizes == sizes &&
                  b.strides == strides && to_.x.is(view->offset, 0);
    out.kind = is_all ? Output::Kind::buffer : Output::Kind::view;
    out.view = std::move(*view);
    program_.outputs.push_back(std::move(out));
  }
}

namespace {

// What the host draws it takes from the generator when it gets there, loops have theirs before the
// call begins: together they would not follow the order of the graph.
bool draws_in_disorder(const Program& program) {
  bool has_draws = false, has_ops = false;
  for (const Real& r : program.reals) has_draws = has_draws || r.op == Real::Op::seed;
  for (const Step& step : program.steps)
    if (auto* op = std::get_if<Extern>(&step)) has_ops = has_ops || op->is_random;
  return has_draws && has_ops;
}

}  // namespace

Program lower(const tn_compile_request& request, const LoweringOptions& options) {
  Program program;
  GraphLowering(program, request, options).run();
  if (draws_in_disorder(program)) {
    LoweringOptions by_host = options;
    by_host.draws = false;
    return lower(request, by_host);
  }
  drop_dead_steps(program);
  return program;
}

}  // namespace loopir
