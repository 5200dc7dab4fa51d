// What is left of a backward when some tangents are undefined.
//
// Problem: a result that nobody used gets no gradient. Zeros in its place are right, but the calls
//   that carry them compute nothing.
// Model: a value is gone when it is linear in tangents that are all undefined: gradients are sums
//   of products, so a product with a part that is gone is gone, a sum of such parts is gone, and a
//   sum with others is the sum of the others. Zeros that the backward makes itself (a scatter into
//   zeros) count as gone beside parts that are, but never alone: their gradient is there, as zeros.
// Method: one walk forwards. For pointwise ops the model is applied to their scalar programs, for
//   others to what their rows say of their arguments; unknown ones get zeros. Bodies of control flow
//   are walked by themselves, that of a scan until what it carries stays. What nobody needs any more
//   is removed afterwards. Cost: linear in the graph and the programs.
#include "aot/zero_tangents.h"

#include "core/arguments.h"
#include "core/sym/sym_int.h"
#include "graph/control_flow.h"
#include "graph/copy.h"
#include "graph/passes/passes.h"
#include "graph/record.h"
#include "ops/forms/linear_form.h"
#include "ops/op_ids.h"
#include "ops/pointwise.h"
#include "ops/shapes.h"

#include <tenon/ops/create.h>
#include <tenon/ops/view.h>

#include <algorithm>
#include <deque>

namespace tenon {

namespace {

enum class Part : uint8_t { there, zero, gone };

/// The parts of the values of one graph.
class Parts {
 public:
  Parts(const Graph& graph, std::span<const Part> inputs)
      : parts_(graph.values().size(), Part::there) {
    for (size_t i = 0; i < inputs.size(); ++i) parts_[graph.inputs()[i]] = inputs[i];
    for (ValueId v : graph.constants())
      if (is_zero(graph.constant(v))) parts_[v] = Part::zero;
  }

  Part of(ValueId v) const { return v == no_value ? Part::there : parts_[v]; }

  // `args`: the node's as a call takes them.
  void visit(const Node& node, std::span<const Value> args) {
    const OpEntry& op = entry_of(node.op);
    if (op.mutated_args || op.n_returns == 0) return;
    if (is_control_flow(op)) return visit_control_flow(node, control_flow_of(op));
    if (op.def->formula && !op.functional) return visit_formula(node, op, args);
    Part part = part_of(node, op);
    for (uint32_t r = 0; r < node.n_results; ++r) parts_[node.first_result + r] = part;
  }

 private:
  // The backward pass of a body that is recorded asks for it too.
  static bool is_zero(const Tensor& t) {
    PauseRecording pause;
    constexpr int64_t most_elements = 4096;
    return t.numel().guard_int() <= most_elements && is_computing(t.dtype()) &&
           !static_cast<bool>(t.ne(0).any());
  }

  Part argument(const Node& node, size_t arg) const {
    const Value& a = node.args[arg];
    if (a.is_number())
      return !a.number().is_symbolic() && a.number().to_double() == 0 ? Part::zero : Part::there;
    Part part = Part::zero;  // also of one that is not given
    for_each_value(a, [&](ValueId v) { part = sum(part, of(v)); });
    return part;
  }

  static Part sum(Part a, Part b) {
    if (a == Part::there || b == Part::there) return Part::there;
    return a == Part::gone || b == Part::gone ? Part::gone : Part::zero;
  }
  static Part product(Part a, Part b) {
    return a == Part::gone || b == Part::gone ? Part::gone : Part::there;
  }

  Part part_of(const Node& node, const OpEntry& op) const {
    auto terms = linear_terms(op);
    if (!terms) return Part::there;
    Part part = Part::zero;
    for (const std::vector<size_t>& factors : *terms) {
      Part term = argument(node, factors[0]);
      for (size_t arg : std::span(factors).subspan(1)) term = product(term, argument(node, arg));
      part = sum(part, term);
    }
    return part == Part::zero && reads_gone(node) ? Part::gone : part;
  }

  // Zeros like a gradient that is gone are the gradient of what was written over.
  bool reads_gone(const Node& node) const {
    bool reads = false;
    Graph::for_each_use(node, [&](ValueId v) { reads = reads || of(v) == Part::gone; });
    return reads;
  }

  static std::vector<Part> outputs_of(const Graph& body, std::span<const Part> inputs) {
    Parts parts(body, inputs);
    for (const Node& node : body.nodes()) {
      ArgumentLists lists;
      std::vector<Value> args(node.args.begin(), node.args.end());
      std::deque<Tensor> fakes;
      auto standing = [&](ValueId v) {
        const GraphValue& value = body.value(v);
        return value.kind == ValueKind::tensor
                   ? Value::of(fakes.emplace_back(make_fake(value.meta, value.offset)))
                   : Value{};
      };
      map_arguments(args, lists, standing, keep_numbers);
      parts.visit(node, args);
    }
    std::vector<Part> outputs;
    for (ValueId v : body.outputs()) outputs.push_back(parts.of(v));
    return outputs;
  }

  // Element by element; the first of `a` are those of `b`.
  static void add(std::vector<Part>& a, std::span<const Part> b) {
    for (size_t i = 0; i < b.size(); ++i) a[i] = sum(a[i], b[i]);
  }

  // Bodies come before the lists of operands.
  void visit_control_flow(const Node& node, ControlFlow kind) {
    std::vector<const Graph*> bodies;
    std::vector<Part> operands, carried;
    for (const Value& a : node.args) {
      if (a.tag == Tag::graph) bodies.push_back(a.as<Graph>());
      for_each_value(a, [&](ValueId v) {
        if (!bodies.empty()) operands.push_back(of(v));
      });
    }
    std::vector<Part> results(node.n_results, Part::there);
    if (kind == ControlFlow::cond || kind == ControlFlow::map)
      results = outputs_of(*bodies[0], operands);
    if (kind == ControlFlow::cond) add(results, outputs_of(*bodies[1], operands));
    if (kind == ControlFlow::scan) {
      size_t n_carried = node.args[1].count;
      do {
        carried.assign(operands.begin(), operands.begin() + static_cast<ptrdiff_t>(n_carried));
        results = outputs_of(*bodies[0], operands);
        add(operands, std::span(results).first(n_carried));
      } while (!std::ranges::equal(carried, std::span(operands).first(n_carried)));
      std::ranges::copy(carried, results.begin());
    }
    std::ranges::copy(results, parts_.begin() + node.first_result);
  }

  void visit_formula(const Node& node, const OpEntry& op, std::span<const Value> args) {
    CallArgs call{&op, args.data(), nullptr, static_cast<uint32_t>(args.size()), op.n_returns};
    const ScalarProgram& program = pointwise_program(op, pointwise_entry(op, call));
    std::vector<Part> parts;
    for (uint32_t i = 0; i < op.n_args; ++i)
      if (op.schema.args[i].type.base <= BaseType::boolean && !node.args[i].is_none())
        parts.push_back(argument(node, i));
    if (parts.size() != program.n_inputs) return;
    for (const ScalarInstr& instr : program.instr) parts.push_back(part_of(instr, parts));
    for (uint32_t r = 0; r < node.n_results; ++r)
      parts_[node.first_result + r] = parts[program.outputs[r]];
  }

  static Part part_of(const ScalarInstr& i, const std::vector<Part>& parts) {
    switch (i.op()) {
      case ScalarCode::constant: {
        ScalarLiteral literal{uint64_t{i.b} << 32 | i.a, i.dtype == dtype_number(Dtype::f64)};
        return literal.as_double() == 0 ? Part::zero : Part::there;
      }
      case ScalarCode::neg:
      case ScalarCode::cast:
        return parts[i.a];
      case ScalarCode::add:
      case ScalarCode::sub:
        return sum(parts[i.a], parts[i.b]);
      case ScalarCode::select:
        return sum(parts[i.b], parts[i.c]);
      case ScalarCode::mul:
        return product(parts[i.a], parts[i.b]);
      case ScalarCode::div:
        return product(parts[i.a], Part::there);
      default:
        return Part::there;
    }
  }

  std::vector<Part> parts_;
};

/// Copies a backward without the parts that are gone.
class Thinning {
 public:
  Thinning(const Graph& graph, const std::vector<bool>& undefined)
      : graph_(graph), parts_(graph, tangents(undefined)), copy_(graph) {}

  std::shared_ptr<Graph> run() {
    {
      RecordScope scope(copy_.recorder());
      copy_.add_inputs();
      copy_.add_constants();
      for (NodeId n = 0; n < graph_.nodes().size(); ++n) add(n);
    }
    std::shared_ptr<Graph> thinned = copy_.finish();
    std::vector<ValueId> outputs(thinned->outputs().begin(), thinned->outputs().end());
    for (size_t i = 0; i < outputs.size(); ++i)
      if (is_gone(graph_.outputs()[i])) outputs[i] = no_value;
    thinned->set_outputs(std::move(outputs));
    remove_dead_code(*thinned);
    return thinned;
  }

 private:
  static std::vector<Part> tangents(const std::vector<bool>& undefined) {
    std::vector<Part> parts;
    for (bool is_gone : undefined) parts.push_back(is_gone ? Part::gone : Part::there);
    return parts;
  }

  bool is_gone(ValueId v) const { return parts_.of(v) == Part::gone; }

  bool all_gone(const Node& node) const {
    for (uint32_t r = 0; r < node.n_results; ++r)
      if (graph_.value(node.first_result + r).kind != ValueKind::none &&
          !is_gone(node.first_result + r))
        return false;
    return node.n_results > 0;
  }

  void add(NodeId n) {
    const Node& node = graph_.node(n);
    parts_.visit(node, copy_.call_arguments(n));
    // What is gone is still copied, with the zeros that it may need, and removed afterwards.
    if (!all_gone(node)) {
      if (ValueId rest = rest_of_sum(node); rest != no_value) {
        copy_.add_node(n);
        return copy_.replace(node.first_result, copy_.fake(rest));
      }
      Graph::for_each_use(node, [&](ValueId v) { make_zeros(v); });
    }
    copy_.add_node(n);
  }

  // The other term of a sum, where it is the whole sum.
  ValueId rest_of_sum(const Node& node) const {
    bool adds = node.op == OpId::aten_add_Tensor && node.args[0].tag == Tag::ref &&
                node.args[1].tag == Tag::ref && node.args[2].tag == Tag::integer &&
                node.args[2].payload == 1;
    if (!adds) return no_value;
    auto a = static_cast<ValueId>(node.args[0].payload),
         b = static_cast<ValueId>(node.args[1].payload);
    ValueId rest = is_gone(a) ? b : is_gone(b) ? a : no_value;
    if (rest == no_value) return no_value;
    const TensorMeta &meta = graph_.value(rest).meta,
                     &wanted = graph_.value(node.first_result).meta;
    bool same = meta.dtype == wanted.dtype && meta.sizes.size() == wanted.sizes.size();
    for (size_t d = 0; same && d < meta.sizes.size(); ++d)
      same = guard_or_false(meta.sizes[d] == wanted.sizes[d]);
    return same ? rest : no_value;
  }

  void make_zeros(ValueId v) {
    if (!is_gone(v) || has_zeros_[v]) return;
    has_zeros_[v] = true;
    copy_.replace(v, zeros_as(graph_.value(v).meta));
  }

  // An expanded dimension shows one row of zeros: a copy with its strides there cannot be.
  static Tensor zeros_as(const TensorMeta& meta) {
    Dims memory = meta.sizes;
    bool is_expanded = false;
    for (size_t d = 0; d < memory.size(); ++d)
      if (meta.strides[d].word() == 0 && !is_one(meta.sizes[d])) {
        is_expanded = true;
        memory[d] = 1;
      }
    Tensor rows = zeros(list_of(memory), meta.dtype, {}, meta.device);
    return is_expanded ? rows.expand(list_of(meta.sizes)) : rows;
  }

  const Graph& graph_;
  Parts parts_;
  GraphCopy copy_;
  std::vector<bool> has_zeros_ = std::vector<bool>(graph_.values().size());
};

std::vector<bool> read_values(const Graph& graph) {
  std::vector<bool> read(graph.values().size());
  for (const Node& node : graph.nodes())
    Graph::for_each_use(node, [&](ValueId v) { read[v] = true; });
  for (ValueId v : graph.outputs())
    if (v != no_value) read[v] = true;
  return read;
}

}  // namespace

std::optional<MaskedBackward> without_tangents(const Graph& backward,
                                               const std::vector<bool>& undefined) {
  std::shared_ptr<Graph> thinned = Thinning(backward, undefined).run();
  if (thinned->nodes().size() >= backward.nodes().size()) return std::nullopt;
  MaskedBackward out;
  std::vector<bool> read = read_values(*thinned);
  std::vector<ValueId> inputs, outputs;
  for (uint32_t i = 0; i < thinned->inputs().size(); ++i) {
    ValueId v = thinned->inputs()[i];
    if (!read[v] || thinned->value(v).kind != ValueKind::tensor) continue;
    if (i < undefined.size() && undefined[i]) return std::nullopt;  // something with effects
    inputs.push_back(v);
    out.inputs.push_back(i);
  }
  for (uint32_t i = 0; i < thinned->outputs().size(); ++i)
    if (thinned->outputs()[i] != no_value) {
      outputs.push_back(thinned->outputs()[i]);
      out.outputs.push_back(i);
    }
  std::vector<NodeId> nodes(thinned->nodes().size());
  for (NodeId n = 0; n < nodes.size(); ++n) nodes[n] = n;
  out.half = Extractor(*thinned).cut(nodes, inputs, outputs);
  return out;
}

std::vector<std::vector<bool>> tangents_of_outputs(const Graph& backward, size_t n_saved,
                                                   size_t n_tangents) {
  std::vector<std::vector<bool>> reaching(backward.values().size());
  for (size_t t = 0; t < n_tangents; ++t) {
    std::vector<bool>& own = reaching[backward.inputs()[n_saved + t]];
    own.resize(n_tangents);
    own[t] = true;
  }
  for (const Node& node : backward.nodes()) {
    std::vector<bool> all;
    Graph::for_each_use(node, [&](ValueId v) {
      all.resize(std::max(all.size(), reaching[v].size()));
      for (size_t t = 0; t < reaching[v].size(); ++t) all[t] = all[t] || reaching[v][t];
    });
    for (uint32_t r = 0; r < node.n_results; ++r) reaching[node.first_result + r] = all;
  }
  std::vector<std::vector<bool>> out;
  for (ValueId v : backward.outputs())
    out.push_back(v == no_value ? std::vector<bool>() : reaching[v]);
  return out;
}

}  // namespace tenon
