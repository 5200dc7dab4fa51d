// Cutting graphs where the tape is wanted.
#include "compile/tape_pieces.h"

#include "autograd/tape_requests.h"
#include "backend/compile/stitched.h"
#include "core/dispatch.h"
#include "graph/interpret.h"
#include "ops/op_table.h"

#include <algorithm>
#include <optional>
#include <set>
#include <unordered_map>

namespace tenon {

using autograd::FunctionPlace;
using autograd::RequestsOfCall;
using autograd::detail::FunctionBackward;

namespace {

FunctionBackward as_it_is(FunctionBackward backward) { return backward; }

/// The backward of a function as a compiled callable: it runs on every call, along what was recorded.
class CompiledBackward : public std::enable_shared_from_this<CompiledBackward> {
 public:
  explicit CompiledBackward(Options options) : code_(compile(&run, std::move(options))) {}
  FunctionBackward in_place_of(FunctionBackward backward) {
    return [self = shared_from_this(), backward = std::move(backward)](autograd::Context& context,
                                                                       std::vector<Tensor> grads) {
      Call call{context, backward};
      return self->code_(&call, grads);
    };
  }

 private:
  struct Call {
    autograd::Context& context;
    const FunctionBackward& backward;
  };
  static std::vector<Tensor> run(Call* call, const std::vector<Tensor>& grads) {
    return call->backward(call->context, grads);
  }
  CompiledFunction<std::vector<Tensor> (*)(Call*, const std::vector<Tensor>&)> code_;
};

Options options_of_backward(const Options& options) {
  return {.backend = options.backend,
          .dynamic = options.dynamic,
          .mode = options.mode,
          .options = options.options,
          .recompile_limit = options.recompile_limit,
          .name = options.name.empty() ? "" : options.name + " backward"};
}

/// Nodes of a graph up to a place where the tape is wanted.
struct Stretch {
  std::vector<NodeId> nodes;
  std::optional<FunctionPlace> function;  ///< whose forward they are
  bool is_own_node = false;               ///< one operation, which goes on the tape itself
};

/// One of these with its code.
class TapePiece final : public Artifact {
 public:
  TapePiece(std::shared_ptr<Artifact> code, const Stretch& stretch, const Extracted& part,
            std::span<const ValueId> hooked, const Options& options)
      : code_(std::move(code)),
        function_(stretch.function),
        last_(stretch.nodes.back()),
        inputs_(part.outer_inputs),
        outputs_(part.outer_outputs) {
    for (ValueId v : outputs_)
      if (std::ranges::find(hooked, v) != hooked.end()) hooked_.push_back(v);
    guards = code_->guards;
    if (function_) backward_ = std::make_shared<CompiledBackward>(options_of_backward(options));
  }

  // Code for training borrows its inputs; the caller lets them go.
  void call(std::span<detail::TensorHead*> inputs, std::span<const int64_t> syms,
            std::span<Tensor> outputs, bool) override {
    {
      EnableGradGuard mode(thread_modes.grad_enabled && !function_);
      code_->call(inputs, syms, outputs);
    }
    auto tensor = [&](ValueId value) {
      if (auto made = std::ranges::find(outputs_, value); made != outputs_.end())
        return outputs[static_cast<size_t>(made - outputs_.begin())];
      auto given = std::ranges::find(inputs_, value);
      ensure(given != inputs_.end(), "a function on the tape names a value that its piece has not");
      return share(inputs[static_cast<size_t>(given - inputs_.begin())]);
    };
    if (function_)
      RequestsOfCall::attach_function(last_, *function_, tensor, [this](FunctionBackward own) {
        return backward_->in_place_of(std::move(own));
      });
    if (hooked_.empty()) return;
    RequestsOfCall::attach_hooks([&](ValueId value) {
      bool is_here = std::ranges::find(hooked_, value) != hooked_.end();
      return is_here ? tensor(value) : Tensor();
    });
  }
  std::string describe(int32_t what) const override { return code_->describe(what); }

 private:
  std::shared_ptr<Artifact> code_;
  std::optional<FunctionPlace> function_;
  NodeId last_;
  std::vector<ValueId> inputs_, outputs_, hooked_;
  std::shared_ptr<CompiledBackward> backward_;
};

/// The operations themselves go on the tape.
class TapeInterpreter final : public Artifact {
 public:
  explicit TapeInterpreter(const std::shared_ptr<Graph>& graph)
      : graph_(graph), interpreter_(graph) {
    for (NodeId last : autograd::ends_of_functions(*graph)) {
      FunctionPlace place = *FunctionPlace::of(graph->node(last));
      for (const auto* list : {&place.inputs, &place.results, &place.saved})
        for (ValueId v : *list) kept_.emplace(v, Tensor());
      for (ValueId result : place.results) ends_of_functions_[result] = last;
      functions_.emplace(last, std::move(place));
    }
    interpreter_.on_results(
        [this](const Node& node, std::span<const Tensor> results) { look_at(node, results); });
  }

  void call(std::span<detail::TensorHead*> inputs, std::span<const int64_t> syms,
            std::span<Tensor> outputs, bool steal) override {
    Kept kept = kept_, *outer = std::exchange(kept_of_call, &kept);
    struct Restore {
      Kept* outer;
      ~Restore() { kept_of_call = outer; }
    } restore{outer};
    for (size_t i = 0; i < inputs.size(); ++i)
      if (auto wanted = kept.find(graph_->inputs()[i]); wanted != kept.end() && inputs[i])
        wanted->second = share(inputs[i]);
    interpreter_.run(inputs, syms, outputs, steal);
  }
  std::string describe(int32_t) const override { return ""; }

 private:
  using Kept = std::unordered_map<ValueId, Tensor>;  // what functions of a call name
  static thread_local Kept* kept_of_call;

  void look_at(const Node& node, std::span<const Tensor> results) const {
    for (uint32_t r = 0; r < results.size(); ++r)
      if (auto wanted = kept_of_call->find(node.first_result + r); wanted != kept_of_call->end())
        wanted->second = results[r];
    auto id = static_cast<NodeId>(&node - graph_->nodes().data());
    auto function = functions_.find(id);
    const bool ends_function = function != functions_.end();
    if (ends_function)
      RequestsOfCall::attach_function(
          id, function->second, [](ValueId v) { return kept_of_call->at(v); }, as_it_is);
    auto hooked = [&](ValueId v) {
      if (auto end = ends_of_functions_.find(v); end != ends_of_functions_.end())
        return end->second == id ? kept_of_call->at(v) : Tensor();
      bool is_result = v >= node.first_result && v - node.first_result < results.size();
      return is_result ? results[v - node.first_result] : Tensor();
    };
    if (ends_function || autograd::is_hooked(node)) RequestsOfCall::attach_hooks(hooked);
  }

  std::shared_ptr<Graph> graph_;
  std::unordered_map<NodeId, FunctionPlace> functions_;
  // By result, which gets its history where its function ends, and hooks with it.
  std::unordered_map<ValueId, NodeId> ends_of_functions_;
  Kept kept_;
  Interpreter interpreter_;
};

thread_local TapeInterpreter::Kept* TapeInterpreter::kept_of_call = nullptr;

// What stands between pieces for a written tensor may be another one than the program's.
bool writes_in_place(const Graph& graph) {
  return std::ranges::any_of(graph.nodes(),
                             [](const Node& node) { return written_args(node) != 0; });
}

// `apart`: values that end a piece.
std::vector<Stretch> stretches_of(const Graph& graph, std::span<const ValueId> apart,
                                  std::span<const NodeId> functions) {
  std::vector<bool> ends(graph.nodes().size()), is_inside(ends.size());
  ends.back() = true;
  for (NodeId last : functions) {
    NodeId begin = autograd::begin_of_forward(graph, last, thread_modes.grad_enabled);
    for (NodeId n = begin; n < last; ++n) is_inside[n] = true;
    if (begin > 0) ends[begin - 1] = true;
    ends[last] = true;
  }
  for (ValueId value : apart)
    if (NodeId maker = graph.value(value).source_index; !is_inside[maker]) {
      ends[maker] = true;
      if (maker > 0 && autograd::has_own_node(graph.node(maker))) ends[maker - 1] = true;
    }
  std::vector<Stretch> stretches(1);
  for (NodeId n = 0; n < ends.size(); ++n) {
    stretches.back().nodes.push_back(n);
    if (!ends[n]) continue;
    stretches.back().function = FunctionPlace::of(graph.node(n));
    stretches.back().is_own_node = !is_inside[n] && autograd::has_own_node(graph.node(n));
    if (n + 1 < ends.size()) stretches.emplace_back();
  }
  return stretches;
}

std::set<ValueId> values_of(const FunctionPlace& place) {
  std::set<ValueId> values;
  for (const auto* list : {&place.inputs, &place.results, &place.saved})
    values.insert(list->begin(), list->end());
  values.erase(no_value);
  return values;
}

// What functions name is there for them, whoever else reads it: `named`, of all functions.
Extracted cut_out(Extractor& extractor, const Graph& graph, const Stretch& stretch,
                  const std::set<ValueId>& named) {
  Extracted part = extractor.cut(stretch.nodes);
  auto is_made_here = [&](ValueId v) {
    const GraphValue& value = graph.value(v);
    return value.source == ValueSource::node && value.source_index >= stretch.nodes.front() &&
           value.source_index <= stretch.nodes.back();
  };
  if (!stretch.function && std::ranges::none_of(named, is_made_here)) return part;
  std::vector<ValueId> inputs = part.outer_inputs, outputs = part.outer_outputs;
  std::erase(inputs, no_value);
  auto add = [](std::vector<ValueId>& known, ValueId v) {
    if (std::ranges::find(known, v) == known.end()) known.push_back(v);
  };
  for (ValueId v : named)
    if (is_made_here(v)) add(outputs, v);
  if (stretch.function)
    for (ValueId v : values_of(*stretch.function))
      if (!is_made_here(v)) add(inputs, v);
  return extractor.cut(stretch.nodes, inputs, outputs);
}

}  // namespace

std::shared_ptr<Artifact> op_by_op(const std::shared_ptr<Graph>& graph) {
  bool is_plain =
      autograd::hooked_values(*graph).empty() && autograd::ends_of_functions(*graph).empty();
  if (is_plain) return interpreter_artifact(graph);
  return std::make_shared<TapeInterpreter>(graph);
}

std::shared_ptr<Artifact> compile_tape_pieces(
    const std::shared_ptr<Graph>& graph, const Options& options,
    FunctionRef<std::shared_ptr<Artifact>(const std::shared_ptr<Graph>&)> compile) {
  std::vector<ValueId> hooked = autograd::hooked_values(*graph);
  std::vector<ValueId> apart = autograd::sought_values(*graph);
  apart.insert(apart.end(), hooked.begin(), hooked.end());
  std::vector<NodeId> functions = autograd::ends_of_functions(*graph);
  if (apart.empty() && functions.empty()) return compile(graph);
  if (writes_in_place(*graph)) return op_by_op(graph);
  std::set<ValueId> named;
  for (NodeId last : functions) named.merge(values_of(*FunctionPlace::of(graph->node(last))));
  Extractor extractor(*graph);
  std::vector<CompiledPiece> pieces;
  for (Stretch& stretch : stretches_of(*graph, apart, functions)) {
    Extracted part = cut_out(extractor, *graph, stretch, named);
    autograd::forget_requests(*part.graph);
    EnableGradGuard mode(thread_modes.grad_enabled && !stretch.function);
    auto code = stretch.is_own_node ? op_by_op(part.graph) : compile(part.graph);
    auto piece = std::make_shared<TapePiece>(std::move(code), stretch, part, hooked, options);
    pieces.push_back({std::move(stretch.nodes), std::move(part), std::move(piece),
                      message("piece {} on the tape", pieces.size() + 1), true});
  }
  return stitch(graph, std::move(pieces));
}

}  // namespace tenon
