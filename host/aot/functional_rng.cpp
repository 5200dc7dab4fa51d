// Random ops become counter-based ones, each of which draws where the one before it has ended.
//
// So the numbers are those of the ops themselves run in the graph's order, and the generator is
// moved on by as much.
#include "aot/functional_rng.h"

#include "core/error.h"
#include "core/random.h"
#include "graph/copy.h"
#include "graph/passes/aliasing.h"
#include "ops/counter_based.h"

#include <tenon/ops/create.h>
#include <tenon/plugin.h>

#include <algorithm>
#include <mutex>

namespace tenon {

namespace {

bool draws(const Node& node) { return (entry_of(node.op).tags & TN_TAG_RANDOM) != 0; }

void refuse_drawing_subgraphs(const Graph& graph) {
  for (const std::shared_ptr<Graph>& inner : graph.subgraphs)
    require(!draws_numbers(*inner), ErrorCode::unsupported,
            "functorch.functionalize_rng_ops: an op draws random numbers inside of a sub-graph, "
            "where seed and offset cannot be given to it; set the flag to false for this function");
}

class Functionalizing {
 public:
  Functionalizing(const Graph& graph, const char* prefix)
      : graph_(graph), prefix_(prefix), copy_(graph) {}

  FunctionalRng run(uint32_t n_saved) {
    {
      RecordScope scope(copy_.recorder());
      copy_.add_inputs();
      seed_ = add_input("seed");
      offset_ = add_input("base_offset");
      copy_.add_constants();
      for (NodeId n = 0; n < graph_.nodes().size(); ++n)
        if (draws(graph_.node(n)))
          draw(n);
        else
          copy_.add_node(n);
    }
    FunctionalRng out;
    ValueId end = copy_.recorder().value_of(offset_);
    out.graph = copy_.finish();
    std::vector<ValueId> outputs(out.graph->outputs().begin(), out.graph->outputs().end());
    out.offset_output = static_cast<uint32_t>(outputs.size() - n_saved);
    outputs.insert(outputs.begin() + out.offset_output, end);
    out.graph->value(end).flags.user_output = true;
    out.graph->set_outputs(std::move(outputs));
    return out;
  }

 private:
  Tensor add_input(const char* what) {
    GraphValue value;
    value.name = message("{}_{}_1", prefix_, what);
    return copy_.recorder().add_input(contiguous_meta({}, Dtype::i64), 0, std::move(value));
  }

  void draw(NodeId n) {
    const Node& node = graph_.node(n);
    const OpEntry& form = counter_based_form(entry_of(node.op));
    std::vector<Value> args{Value::of(seed_), Value::of(offset_)};
    for (const Value& a : copy_.call_arguments(n)) args.push_back(a);
    Value results[8];
    dispatch(form, args.data(), static_cast<uint32_t>(args.size()), results, form.n_returns);
    for (uint32_t r = 0; r < node.n_results; ++r)
      copy_.replace(node.first_result + r, take<Tensor>(results[r + 1]));
    offset_ = take<Tensor>(results[0]);
  }

  const Graph& graph_;
  const char* prefix_;
  GraphCopy copy_;
  Tensor seed_, offset_;
};

Tensor word(uint64_t value) { return scalar_tensor(static_cast<int64_t>(value), Dtype::i64); }

class GeneratorArtifact final : public Artifact {
 public:
  GeneratorArtifact(std::shared_ptr<Artifact> inner, uint32_t offset_output)
      : inner_(std::move(inner)), offset_output_(offset_output) {
    guards = inner_->guards;
  }

  void call(std::span<detail::TensorHead*> inputs, std::span<const int64_t> syms,
            std::span<Tensor> outputs, bool steal) override {
    static std::mutex drawing;
    std::lock_guard lock(drawing);
    RngState state = current_rng_state();
    Tensor words[] = {word(state.seed), word(state.offset)};
    std::vector<detail::TensorHead*> heads(inputs.begin(), inputs.end());
    for (Tensor& t : words) heads.push_back(steal ? t.release() : t.head());
    std::vector<Tensor> made(outputs.size() + 1);
    call_inner(heads, inputs, syms, made, steal);
    state.offset = static_cast<uint64_t>(*made[offset_output_].data_ptr<int64_t>());
    restore_rng_state(state);
    made.erase(made.begin() + offset_output_);
    std::move(made.begin(), made.end(), outputs.begin());
  }

  std::string describe(int32_t what) const override { return inner_->describe(what); }

 private:
  // What the callee took is gone for the caller, too, also where it throws.
  void call_inner(std::span<detail::TensorHead*> heads, std::span<detail::TensorHead*> inputs,
                  std::span<const int64_t> syms, std::span<Tensor> made, bool steal) const {
    struct Returning {
      std::span<detail::TensorHead*> heads, inputs;
      bool steal;
      ~Returning() {
        std::copy_n(heads.begin(), inputs.size(), inputs.begin());
        for (size_t i = inputs.size(); i < heads.size(); ++i)
          if (steal && heads[i]) Tensor::adopt(heads[i]);
      }
    } returning{heads, inputs, steal};
    inner_->call(heads, syms, made, steal);
  }

  std::shared_ptr<Artifact> inner_;
  uint32_t offset_output_;
};

}  // namespace

FunctionalRng functionalize_rng(const Graph& graph, const char* prefix, uint32_t n_saved) {
  refuse_drawing_subgraphs(graph);
  if (std::ranges::none_of(graph.nodes(), draws)) return {};
  return Functionalizing(graph, prefix).run(n_saved);
}

std::shared_ptr<Artifact> with_generator(std::shared_ptr<Artifact> inner, uint32_t offset_output) {
  return std::make_shared<GeneratorArtifact>(std::move(inner), offset_output);
}

}  // namespace tenon
