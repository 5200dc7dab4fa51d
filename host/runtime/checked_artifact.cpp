// Comparing an artifact with the interpreter on copies of the inputs of its first call.
#include "runtime/checked_artifact.h"

#include "config/flags.h"
#include "core/error.h"
#include "core/tensor/tensor_impl.h"
#include "graph/interpret.h"
#include "graph/passes/passes.h"
#include "ops/op_table.h"
#include "report/events.h"
#include "report/log.h"
#include "runtime/same.h"

#include <tenon/ops/copy.h>
#include <tenon/plugin.h>

#include <algorithm>
#include <map>
#include <mutex>

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
};

Results run_on_copies(Artifact& artifact, std::span<detail::TensorHead*> inputs,
                      std::span<const int64_t> syms, size_t n_outputs, bool widen) {
  InputCopies copies(inputs, widen);
  Results out;
  out.outputs.resize(n_outputs);
  artifact.call(copies.heads, syms, out.outputs);
  out.inputs = std::move(copies.tensors);
  return out;
}

bool draws_random_numbers(const Graph& graph) {
  return std::any_of(graph.nodes().begin(), graph.nodes().end(),
                     [](const Node& n) { return entry_of(n.op).tags & TN_TAG_RANDOM; });
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
    std::call_once(checked_, [&] { check(inputs, syms); });
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
    auto reference = interpreter_artifact(graph_);
    Results expected = run_on_copies(*reference, inputs, syms, n, false);
    Results found = run_on_copies(*inner_, inputs, syms, n, false);
    Results exact = double_results(inputs, syms, n);
    std::string difference =
        difference_in("output", found.outputs, expected.outputs, exact.outputs);
    if (difference.empty())
      difference = difference_in("input", found.inputs, expected.inputs, exact.inputs);
    if (difference.empty()) return;
    std::string text =
        message("incorrect results of backend {}: {}; the interpreter gives the expected ones",
                compile_.backend, difference);
    if (checks_.accuracy) write_graph_repro(*graph_, compile_, text);
    throw BackendError(ErrorCode::backend_compiler_failed, TN_INTERNAL, text);
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
                         size_t n) const try {
    if (!checks_.double_run) return {};
    std::shared_ptr<Graph> wide = clone(*graph_);
    widen_casts(*wide);
    for (ValueId c : wide->constants())
      if (is_narrow_floating(wide->constant(c).dtype()))
        wide->replace_constant(c, wide->constant(c).to(Dtype::f64));
    return run_on_copies(*interpreter_artifact(wide), inputs, syms, n, true);
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
  std::once_flag checked_;
};

}  // namespace

std::shared_ptr<Artifact> checked_artifact(std::shared_ptr<Graph> graph,
                                           std::shared_ptr<Artifact> artifact,
                                           const ReproCompile& compile) {
  Checks checks;
  if (!checks.any() || draws_random_numbers(*graph)) return artifact;
  return std::make_shared<CheckedArtifact>(std::move(graph), std::move(artifact), compile, checks);
}

}  // namespace tenon
