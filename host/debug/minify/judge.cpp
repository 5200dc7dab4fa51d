// Running a graph on a backend and holding the results against others.
#include "debug/minify/judge.h"

#include "core/error.h"
#include "core/sym/shape_env.h"
#include "core/tensor/tensor_impl.h"
#include "debug/compare.h"
#include "debug/double_run.h"
#include "debug/graph_runner.h"
#include "debug/minify/edge_memory.h"
#include "debug/random_inputs.h"
#include "graph/passes/aliasing.h"
#include "ops/op_table.h"

#include <tenon/autograd.h>
#include <tenon/ops/create.h>

#include <algorithm>
#include <cmath>

namespace tenon {

namespace {

using Tensors = std::vector<Tensor>;

/// What one run left.
struct Run {
  Tensors outputs, inputs, gradients;
};

Tensors completed(Tensors given, Tensors made_up, const Graph& graph) {
  given.resize(made_up.size());
  for (size_t i = 0; i < given.size(); ++i) {
    bool is_tensor = graph.value(graph.inputs()[i]).kind == ValueKind::tensor;
    Dtype dtype = made_up[i].dtype();
    if (is_tensor && is_integral(dtype) && dtype != Dtype::bool_) made_up[i].remainder_(2);
    if (!given[i].defined()) given[i] = made_up[i];
  }
  return given;
}

// Inputs that are known to need a gradient, as parameters are, are leaves; where none is, all
// floating ones that nobody writes.
void choose_leaves(Graph& graph) {
  AliasClasses classes(graph);
  auto can_need = [&](ValueId v) {
    const GraphValue& value = graph.value(v);
    return value.kind == ValueKind::tensor && is_floating(value.meta.dtype) &&
           !classes.is_written(v);
  };
  auto is_known = [&](ValueId v) { return graph.value(v).flags.requires_grad && can_need(v); };
  bool any_known = std::ranges::any_of(graph.inputs(), is_known);
  for (ValueId v : graph.inputs())
    graph.value(v).flags.requires_grad = any_known ? is_known(v) : can_need(v);
}

/// The same inputs for each of several runs.
class Inputs {
 public:
  Inputs(const Graph& graph, Tensors values, bool grad)
      : graph_(graph), values_(std::move(values)), grad_(grad) {}

  Tensors copies() const {
    NoGradGuard no_history;
    Tensors out;
    for (size_t i = 0; i < values_.size(); ++i) {
      const GraphValue& value = graph_.value(graph_.inputs()[i]);
      out.push_back(value.kind == ValueKind::tensor ? at_the_edge(values_[i].clone())
                                                    : values_[i].clone());
      if (grad_ && value.flags.requires_grad) out.back().requires_grad_();
    }
    return out;
  }
  const Tensors& values() const { return values_; }

 private:
  const Graph& graph_;
  Tensors values_;
  bool grad_;
};

// An input that was written is no leaf any more: it is a result.
bool is_wanted(const Tensor& input) {
  return input.defined() && input.requires_grad() && input.is_leaf();
}

// Of the outputs, each times numbers of its own, so that no two gradients cancel.
Tensors gradients_of(const Tensors& outputs, const Tensors& inputs) {
  Tensors from, tangents, leaves;
  for (size_t i = 0; i < outputs.size(); ++i) {
    const Tensor& t = outputs[i];
    if (!t.defined() || !t.requires_grad()) continue;
    from.push_back(t);
    std::vector<int64_t> sizes;
    for (SymInt size : t.sizes()) sizes.push_back(size.guard_int());
    tangents.push_back(random_tensor(IntList(sizes), t.dtype(), 1000 + i));
  }
  for (const Tensor& t : inputs)
    if (is_wanted(t)) leaves.push_back(t);
  Tensors out(inputs.size());
  if (from.empty() || leaves.empty()) return out;
  Tensors found =
      autograd::grad(from, leaves, {.grad_outputs = std::move(tangents), .allow_unused = true});
  for (size_t i = 0, k = 0; i < inputs.size(); ++i)
    if (is_wanted(inputs[i])) out[i] = found[k++];
  return out;
}

Tensors without_history(Tensors tensors) {
  for (Tensor& t : tensors)
    if (t.defined()) t = t.detach();
  return tensors;
}

Run finished(Tensors outputs, Tensors inputs, bool grad) {
  Run run;
  if (grad) run.gradients = gradients_of(outputs, inputs);
  run.outputs = without_history(std::move(outputs));
  run.inputs = without_history(std::move(inputs));
  return run;
}

Run run_on(GraphRunner& runner, const Inputs& inputs, bool grad) {
  Tensors own = inputs.copies();
  Tensors outputs = runner.run(own);
  return finished(std::move(outputs), std::move(own), grad);
}

bool is_finite_where(const Tensor& found, const Tensor& exact) {
  if (!is_floating(found.dtype()) || !is_floating(exact.dtype())) return true;
  auto a = found.to(Dtype::f64).to_vector<double>(), b = exact.to(Dtype::f64).to_vector<double>();
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i)
    if (std::isfinite(b[i]) && !std::isfinite(a[i])) return false;
  return true;
}

std::string listed(IntList numbers) {
  std::string out;
  for (int64_t n : numbers) out += (out.empty() ? "" : ", ") + std::to_string(n);
  return "[" + out + "]";
}

// A dimension of length 1 is never stepped over, and nothing is read of an empty tensor.
bool lie_alike(const Tensor& a, const Tensor& b) {
  if (a.dim() != b.dim() || a.numel().guard_int() == 0) return true;
  for (int64_t d = 0; d < a.dim(); ++d)
    if (a.size(d).guard_int() > 1 && a.stride(d).guard_int() != b.stride(d).guard_int())
      return false;
  return true;
}

/// Holds one kind of results against those of the other two runs.
struct Comparer {
  std::string_view what;  ///< "output {}"
  bool gradient = false, checks_layout = false;

  std::string problem(size_t i, const Tensor& found, const Tensor& eager,
                      const Tensor& exact) const {
    if (!exact.defined() || !eager.defined()) return "";
    std::string name = message("{} {}", what, i);
    if (!found.defined() && gradient) return problem(i, zeros_like(eager), eager, exact);
    if (!found.defined()) return name + " is missing: expected " + symbolic_text(eager);
    CompareOptions options{.gradient = gradient, .any_dtype = true};
    if (!compare_tensors(eager, exact, options).ok) return "";
    if (found.dtype() != eager.dtype() ||
        symbolic_text(found.sizes()) != symbolic_text(eager.sizes()))
      return message("{} is of another form: expected {}, found {}", name, symbolic_text(eager),
                     symbolic_text(found));
    if (checks_layout && !lie_alike(found, eager))
      return message("{} has other strides than the graph says: expected {}, found {}", name,
                     listed(extent_of(eager).strides), listed(extent_of(found).strides));
    Comparison own = compare_tensors(found, exact, options);
    if (own.ok) return "";
    if (!is_finite_where(found, exact)) name += " is not finite";
    return message("{}: max abs {}, max rel {}", name, own.max_abs, own.max_rel);
  }
  std::string first_problem(const Tensors& found, const Tensors& eager,
                            const Tensors& exact) const {
    for (size_t i = 0; i < found.size(); ++i)
      if (std::string text = problem(i, found[i], eager[i], exact[i]); !text.empty()) return text;
    return "";
  }
};

std::string first_difference(const Run& found, const Run& eager, const Run& exact) {
  std::string out = Comparer{.what = "output", .checks_layout = true}.first_problem(
      found.outputs, eager.outputs, exact.outputs);
  if (out.empty())
    out = Comparer{.what = "after the call, input"}.first_problem(found.inputs, eager.inputs,
                                                                  exact.inputs);
  if (out.empty())
    out = Comparer{.what = "gradient of input", .gradient = true}.first_problem(
        found.gradients, eager.gradients, exact.gradients);
  return out;
}

/// Other values for the symbols that the graph allows; nothing where there are none.
std::optional<std::vector<int64_t>> other_symbols(const Graph& graph,
                                                  std::vector<int64_t> symbols) {
  auto is_allowed = [&] {
    return std::ranges::all_of(graph.shape_env->guard_conditions(), [&](const RecordedGuard& g) {
      return holds(g.condition, graph, symbols);
    });
  };
  bool is_other = false;
  for (size_t s = 0; s < symbols.size(); ++s) {
    bool is_given = graph.value(graph.symbols[s].value).source == ValueSource::input;
    if (!is_given || graph.symbols[s].symbol->kind != ExprKind::integer) continue;
    int64_t before = symbols[s];
    for (int64_t tried : {before + 1, before + 3, before - 1, before * 2, before}) {
      symbols[s] = tried;
      if (tried > 1 && is_allowed()) break;
    }
    is_other = is_other || symbols[s] != before;
  }
  if (!is_other) return std::nullopt;
  return symbols;
}

class Judge {
 public:
  Judge(std::shared_ptr<Graph> graph, const JudgeOptions& options,
        const std::function<void(std::string_view)>& tell)
      : graph_(std::move(graph)),
        grad_(options.grad),
        tell_(tell),
        runner_(graph_, {backend_for_part(options.backend, options.part), options.mode, "", false}),
        eager_(graph_, {"eager", "", "", false}) {}

  std::string run(Tensors given) {
    Inputs inputs(*graph_, completed(std::move(given), runner_.random_inputs(), *graph_), grad_);
    tell_("compile");
    runner_.compile();
    std::string wrong = compare(inputs);
    tell_(message("{}{}", told_regions, regions_of_part()));
    if (!wrong.empty() || graph_->symbols.empty()) return wrong;
    auto other = other_symbols(*graph_, runner_.symbols_of(inputs.values()));
    if (!other) return "";
    std::string with_others = compare_with(*other, inputs.values());
    return with_others.empty() ? "" : "with other sizes, " + with_others;
  }

 private:
  std::string compare(const Inputs& inputs) {
    tell_("call");
    Run found = run_on(runner_, inputs, grad_);
    tell_("compare");
    Run eager = run_on(eager_, inputs, grad_);
    return first_difference(found, eager, run_in_double(inputs, eager));
  }

  // Symbols are read from the inputs, and from results where only the run knows them. What does not
  // run in double precision, such as a loop that states its dtype, is held against eager ops.
  Run run_in_double(const Inputs& inputs, const Run& eager) const try {
    DoubleRun exact = run_graph_in_double(*graph_, inputs.copies(), {}, grad_);
    return finished(std::move(exact.outputs), std::move(exact.leaves), grad_);
  } catch (const Error&) {
    return eager;
  }

  // What eager ops refuse of those sizes says nothing about the backend. Weights stay.
  std::string compare_with(const std::vector<int64_t>& symbols, const Tensors& before) {
    std::optional<Inputs> inputs;
    try {
      Tensors made_up = runner_.random_inputs(symbols, /*seed=*/100), kept(made_up.size());
      for (size_t i = 0; i < kept.size(); ++i)
        if (symbolic_text(made_up[i].sizes()) == symbolic_text(before[i].sizes()) &&
            before[i].dim() > 0)
          kept[i] = before[i];
      inputs.emplace(*graph_, completed(std::move(kept), std::move(made_up), *graph_), grad_);
      run_on(eager_, *inputs, false);
    } catch (const Error&) {
      return "";
    }
    return compare(*inputs);
  }

  std::shared_ptr<Graph> graph_;
  bool grad_;
  const std::function<void(std::string_view)>& tell_;
  GraphRunner runner_, eager_;
};

}  // namespace

std::vector<Tensor> complete_inputs(const std::shared_ptr<Graph>& graph,
                                    std::vector<Tensor> given) {
  GraphRunner runner(graph, {"eager", "", "", false});
  return completed(std::move(given), runner.random_inputs(), *graph);
}

std::string judge_graph(const std::shared_ptr<Graph>& graph, std::vector<Tensor> inputs,
                        const JudgeOptions& options,
                        const std::function<void(std::string_view)>& tell) {
  EnableGradGuard as_wanted(options.grad);
  if (options.grad) choose_leaves(*graph);
  return Judge(graph, options, tell).run(std::move(inputs));
}

}  // namespace tenon
