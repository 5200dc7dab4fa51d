// Comparing an artifact with the interpreter on copies of the inputs of its first call.
#include "runtime/checked_artifact.h"

#include "autograd/grad_state.h"
#include "config/flags.h"
#include "core/dispatch.h"
#include "core/error.h"
#include "core/tensor/tensor_impl.h"
#include "core/threads/once.h"
#include "graph/interpret.h"
#include "graph/passes/aliasing.h"
#include "graph/passes/passes.h"
#include "ops/op_table.h"
#include "report/events.h"
#include "report/log.h"
#include "runtime/same.h"
#include "runtime/start_minifier.h"

#include <tenon/autograd.h>
#include <tenon/ops/copy.h>
#include <tenon/ops/create.h>
#include <tenon/ops/view.h>
#include <tenon/plugin.h>

#include <algorithm>
#include <map>

namespace tenon {

namespace {

// Copies of inputs; those over one storage stay so.
struct InputCopies {
  std::vector<Tensor> tensors;
  std::vector<detail::TensorHead*> heads;

  InputCopies(std::span<detail::TensorHead*> inputs, bool widen) {
    std::map<const Storage*, Tensor> bases;
    for (detail::TensorHead* head : inputs) {
      tensors.emplace_back();
      if (head) tensors.back() = copy_of(share(head), widen, bases);
    }
    for (const Tensor& t : tensors) heads.push_back(t.head());
  }

 private:
  static Tensor copy_of(const Tensor& t, bool widen, std::map<const Storage*, Tensor>& bases) {
    Storage* storage = impl_of(t)->storage_ref.get();
    if (!storage) return t.clone();
    Tensor& base = bases[storage];
    bool widened = widen && is_narrow_floating(t.dtype());
    if (!base.defined()) {
      auto n = static_cast<int64_t>(storage->bytes / itemsize(t.dtype()));
      Tensor whole = make_view(t, IntList{n}, IntList{1}, 0);
      base = widened ? whole.to(Dtype::f64) : whole.clone();
    }
    return make_view(base, t.sizes(), t.strides(), t.storage_offset());
  }
};

struct Results {
  std::vector<Tensor> outputs, inputs;  // inputs as they are after the run
  std::vector<Tensor> gradients;        // of the sum of the outputs, by input
};

/// What a graph says of an input that needs a gradient.
enum class Needs : uint8_t { nothing, gradient, gradient_before_write };

// What gradients are asked of, by input; undefined where nobody needs one. An input that the run writes
// is no leaf, as a leaf cannot be written: it is made of one. After the run it is what was written.
std::vector<Tensor> leaves_behind(const std::vector<Tensor>& inputs,
                                  const std::vector<Needs>& needs) {
  EnableGradGuard on_tape;
  std::vector<Tensor> leaves(inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (needs[i] == Needs::nothing) continue;
    bool is_written = needs[i] == Needs::gradient_before_write;
    leaves[i] = is_written ? inputs[i].detach() : inputs[i];
    leaves[i].requires_grad_();
    if (is_written) autograd::set_history(inputs[i], autograd::node_of(alias(leaves[i])), 0);
  }
  return leaves;
}

std::vector<Tensor> gradients_of(const std::vector<Tensor>& outputs,
                                 const std::vector<Tensor>& leaves) {
  std::vector<Tensor> from, ones, wanted, out(leaves.size());
  for (const Tensor& t : outputs)
    if (t.defined() && t.requires_grad()) from.push_back(t), ones.push_back(ones_like(t));
  for (const Tensor& t : leaves)
    if (t.defined()) wanted.push_back(t);
  if (from.empty() || wanted.empty()) return out;
  std::vector<Tensor> found =
      autograd::grad(from, wanted, {.grad_outputs = ones, .allow_unused = true});
  for (size_t i = 0, k = 0; i < leaves.size(); ++i) {
    if (!leaves[i].defined()) continue;
    out[i] = found[k].defined() ? found[k] : zeros_like(leaves[i]);
    ++k;
  }
  return out;
}

std::vector<Tensor> without_history(std::vector<Tensor> tensors) {
  for (Tensor& t : tensors)
    if (t.defined()) t = t.detach();
  return tensors;
}

/// How an artifact is run for a comparison.
struct RunOptions {
  size_t n_outputs;
  bool widen = false;
  const std::vector<Needs>* needs = nullptr;  ///< by input, where results have a history
  bool compares_gradients = true;             ///< then
};

Results run_on_copies(Artifact& artifact, std::span<detail::TensorHead*> inputs,
                      std::span<const int64_t> syms, const RunOptions& options) {
  InputCopies copies(inputs, options.widen);
  std::vector<Tensor> leaves;
  if (options.needs) leaves = leaves_behind(copies.tensors, *options.needs);
  // Copies are no part of the tape: where no gradient is compared there is none.
  EnableGradGuard as_wanted(options.needs != nullptr);
  Results out;
  out.outputs.resize(options.n_outputs);
  artifact.call(copies.heads, syms, out.outputs);
  if (options.needs && options.compares_gradients)
    out.gradients = gradients_of(out.outputs, leaves);
  out.outputs = without_history(std::move(out.outputs));
  out.inputs = without_history(std::move(copies.tensors));
  return out;
}

struct Checks {
  bool verify = false, accuracy = false, crossref = false, crossref_built_in = false;
  bool double_run = false;
  SameOptions same;

  Checks() {
    const config::Flags& flags = config::flags();
    verify = flags.dynamo.verify_correctness;
    accuracy = flags.dynamo.repro_after != "unset" && flags.dynamo.repro_level == 4;
    crossref = flags.functorch.fake_tensor_crossref != "false";
    crossref_built_in = flags.functorch.fake_tensor_crossref == "all";
    double_run = flags.dynamo.same_two_models_use_fp64;
    if (!accuracy) return;
    same.tolerance = flags.dynamo.repro_tolerance;
    same.ignore_non_floating = flags.dynamo.repro_ignore_non_fp;
  }
  bool any() const { return verify || accuracy || crossref; }
};

class CheckedArtifact final : public Artifact {
 public:
  CheckedArtifact(std::shared_ptr<Graph> graph, std::shared_ptr<Artifact> inner,
                  ReproCompile compile, Checks checks)
      : graph_(std::move(graph)),
        inner_(std::move(inner)),
        compile_(std::move(compile)),
        checks_(checks) {
    guards = inner_->guards;
  }

  void call(std::span<detail::TensorHead*> inputs, std::span<const int64_t> syms,
            std::span<Tensor> outputs, bool steal) override {
    checked_.run([&] { check(inputs, syms); });
    inner_->call(inputs, syms, outputs, steal);
  }

  std::string describe(int32_t what) const override { return inner_->describe(what); }
  SavedArtifact save() const override { return inner_->save(); }

 private:
  void check(std::span<detail::TensorHead*> inputs, std::span<const int64_t> syms) {
    report::counter("runtime.checked_artifacts").add();
    if (checks_.crossref) compare_with_meta(inputs, syms);
    if (checks_.verify || checks_.accuracy) compare_results(inputs, syms);
  }

  void compare_results(std::span<detail::TensorHead*> inputs, std::span<const int64_t> syms) {
    size_t n = graph_->outputs().size();
    std::vector<Needs> needs = needs_of(inputs);
    RunOptions options{n, false, needs.empty() ? nullptr : &needs};
    Results expected = expected_results(inputs, syms, options);
    Results found = run_on_copies(*inner_, inputs, syms, options);
    options.widen = true;
    Results exact = double_results(inputs, syms, options);
    std::string difference =
        difference_in("output", found.outputs, expected.outputs, exact.outputs);
    if (difference.empty())
      difference = difference_in("input", found.inputs, expected.inputs, exact.inputs);
    if (difference.empty())
      difference =
          difference_in("gradient of input", found.gradients, expected.gradients, exact.gradients);
    if (difference.empty()) return;
    std::string text =
        message("incorrect results of backend {}: {}; the interpreter gives the expected ones",
                compile_.backend, difference);
    if (checks_.accuracy) leave_repro(*graph_, compile_, text, inputs);
    throw BackendError(ErrorCode::backend_compiler_failed, TN_INTERNAL, text);
  }

  // Operations refuse a backward that code of the whole graph has: of x.mul_(x), whose factor is gone.
  Results expected_results(std::span<detail::TensorHead*> inputs, std::span<const int64_t> syms,
                           RunOptions& options) const {
    auto reference = interpreter_artifact(graph_);
    try {
      return run_on_copies(*reference, inputs, syms, options);
    } catch (const Error&) {
      if (!options.needs) throw;
    }
    options.compares_gradients = false;
    return run_on_copies(*reference, inputs, syms, options);
  }

  // The inputs whose gradients an accuracy check compares; empty: it looks at no backward.
  std::vector<Needs> needs_of(std::span<detail::TensorHead*> inputs) const {
    if (!checks_.accuracy || !minifies_gradients(*graph_)) return {};
    AliasClasses classes(*graph_);
    std::vector<Needs> out;
    for (size_t i = 0; i < inputs.size(); ++i) {
      ValueId v = graph_->inputs()[i];
      bool needs = inputs[i] && graph_->value(v).flags.requires_grad;
      out.push_back(!needs                  ? Needs::nothing
                    : classes.is_written(v) ? Needs::gradient_before_write
                                            : Needs::gradient);
    }
    return out;
  }

  std::string difference_in(std::string_view what, const std::vector<Tensor>& found,
                            const std::vector<Tensor>& expected,
                            const std::vector<Tensor>& exact) const {
    for (size_t i = 0; i < found.size(); ++i) {
      Tensor precise = i < exact.size() ? exact[i] : Tensor();
      std::string text = difference_of(found[i], expected[i], precise, checks_.same);
      if (!text.empty()) return message("{} {} {}", what, i, text);
    }
    return "";
  }

  // Nothing where the graph does not run in double precision.
  Results double_results(std::span<detail::TensorHead*> inputs, std::span<const int64_t> syms,
                         const RunOptions& options) const try {
    if (!checks_.double_run) return {};
    std::shared_ptr<Graph> wide = clone(*graph_);
    widen_casts(*wide);
    for (ValueId c : wide->constants())
      if (is_narrow_floating(wide->constant(c).dtype()))
        wide->replace_constant(c, wide->constant(c).to(Dtype::f64));
    return run_on_copies(*interpreter_artifact(wide), inputs, syms, options);
  } catch (const Error& error) {
    report::log(report::LogLevel::warning, "runtime",
                "the accuracy check goes without a run in double precision: {}", error.what());
    return {};
  }

  void compare_with_meta(std::span<detail::TensorHead*> inputs, std::span<const int64_t> syms) {
    Interpreter interpreter(graph_);
    interpreter.on_results(
        [this](const Node& node, std::span<const Tensor> results) { compare_node(node, results); });
    InputCopies copies(inputs, false);
    std::vector<Tensor> outputs(graph_->outputs().size());
    interpreter.run(copies.heads, syms, outputs);
  }

  void compare_node(const Node& node, std::span<const Tensor> results) const {
    const OpEntry& op = entry_of(node.op);
    if (op.name.starts_with("aten.") && !checks_.crossref_built_in) return;
    for (size_t r = 0; r < results.size(); ++r) {
      const GraphValue& said = graph_->value(node.first_result + static_cast<ValueId>(r));
      const Tensor& real = results[r];
      if (said.kind != ValueKind::tensor || !real.defined()) continue;
      bool like = said.meta.dtype == real.dtype() &&
                  said.meta.sizes.size() == static_cast<size_t>(real.dim());
      for (size_t d = 0; like && d < said.meta.sizes.size(); ++d)
        like = said.meta.sizes[d].is_symbolic() ||
               said.meta.sizes[d].word() == real.size(static_cast<int64_t>(d)).word();
      require(like,
              "{}: its meta function says that result {} is {}, its kernel gives {}; one of the "
              "two is wrong (functorch.fake_tensor_crossref)",
              op.name, r, to_text(said), real);
    }
  }

  std::shared_ptr<Graph> graph_;
  std::shared_ptr<Artifact> inner_;
  ReproCompile compile_;
  Checks checks_;
  Once checked_;
};

// Whether running it on copies shows: what an operation of the program does besides computing would
// be done again. Those of our own that are tagged so only check.
bool acts_outside(const Graph& graph) {
  return std::ranges::any_of(graph.nodes(), [](const Node& node) {
    const OpEntry& op = entry_of(node.op);
    bool acts = (op.tags & TN_TAG_SIDE_EFFECT) && !op.name.starts_with("aten.");
    return acts || std::ranges::any_of(node.args, [](const Value& a) {
             return a.tag == Tag::graph && acts_outside(*a.as<Graph>());
           });
  });
}

}  // namespace

std::shared_ptr<Artifact> checked_artifact(std::shared_ptr<Graph> graph,
                                           std::shared_ptr<Artifact> artifact,
                                           const ReproCompile& compile) {
  Checks checks;
  if (!checks.any() || draws_numbers(*graph) || acts_outside(*graph)) return artifact;
  return std::make_shared<CheckedArtifact>(std::move(graph), std::move(artifact), compile, checks);
}

}  // namespace tenon
