// Random graphs and their gradients through the backend `inductor`, or the one that
// TENON_RANDOM_BACKEND names, and eagerly: the same results. Integers and truth are equal; a floating
// element is as near to what f64 gives as eager kernels are. With TENON_RANDOM_ON_GPU=1 the compiled
// ones run on a GPU, eager ones on the CPU; products and sums are not contracted then, which would
// make differences of equal numbers others than 0. What a GPU has no code for is told, and no fault.
#include "plugins/inductor/random/random_graph.h"

#include "core/error.h"
#include "plugins/needs_gpu.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <string_view>

namespace tenon::random_graphs {
namespace {

bool is_on_gpu() {
  const char* given = std::getenv("TENON_RANDOM_ON_GPU");
  return given && std::string_view(given) == "1";
}
Device device() { return Device(is_on_gpu() ? DeviceType::cuda : DeviceType::cpu); }

class InductorRandom : public testing::Test {
  void SetUp() override {
    if (is_on_gpu()) TENON_NEEDS_A_GPU();
  }
};

std::vector<double> doubles_of(const Tensor& t) {
  return t.to(kCPU, Dtype::f64).to_vector<double>();
}

bool is_same(double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); }

std::string float_difference(const Tensor& found, const Tensor& eager, const Tensor& wide,
                             const Value& expected) {
  std::vector<double> f = doubles_of(found), e = doubles_of(eager), w = doubles_of(wide);
  double error = 0;  // of eager kernels
  for (size_t i = 0; i < e.size(); ++i)
    if (std::isfinite(e[i]) && std::isfinite(w[i])) error = std::max(error, std::fabs(e[i] - w[i]));
  double allowed = 4 * error + (32 + 4 * expected.terms) * expected.epsilon * expected.largest;
  for (size_t i = 0; i < f.size(); ++i) {
    double exact = std::isfinite(w[i]) ? w[i] : e[i];  // narrow numbers overflow, or do not
    if (is_same(f[i], e[i]) || is_same(f[i], w[i]) || std::fabs(f[i] - exact) <= allowed) continue;
    return message("element {} is {}, eagerly {}, in f64 {}, allowed {}", i, f[i], e[i], w[i],
                   allowed);
  }
  return "";
}

std::string difference(const Tensor& found, const Value& expected, size_t run) {
  const Tensor& eager = expected.narrow[run];
  if (to_text(found.dtype()) != to_text(eager.dtype()))
    return message("dtype {}, expected {}", found.dtype(), eager.dtype());
  if (to_text(found.sizes()) != to_text(eager.sizes()))
    return message("sizes {}, expected {}", to_text(found.sizes()), to_text(eager.sizes()));
  if (is_floating(eager.dtype()))
    return float_difference(found, eager, expected.wide[run], expected);
  std::vector<int64_t> a = found.to(kCPU, Dtype::i64).to_vector<int64_t>();
  std::vector<int64_t> b = eager.to(Dtype::i64).to_vector<int64_t>();
  for (size_t i = 0; i < a.size(); ++i)
    if (a[i] != b[i]) return message("element {} is {}, expected {}", i, a[i], b[i]);
  return "";
}

/// The inputs of a run in two groups: the arguments, and what the callable has captured.
struct Arguments {
  Tensors given, captured;
  Arguments(const Recipe& recipe, size_t run, Device where = device()) {
    for (const Input& input : recipe.inputs) {
      const Tensor& t = input.by_run[run];
      (input.is_captured ? captured : given).push_back(t.to(where, t.dtype()));
    }
    captured.resize(2);
  }
  static Tensors joined(const Recipe& recipe, const Tensors& given, const Tensor& a,
                        const Tensor& b) {
    Tensors out;
    size_t next = 0, n_captured = 0;
    for (const Input& input : recipe.inputs)
      out.push_back(!input.is_captured ? given[next++] : n_captured++ ? b : a);
    return out;
  }
};

std::string recompiles(const std::string& explanation) {
  return explanation.substr(std::min(explanation.find("recompiled because"), explanation.size()));
}

Options options_of_run() {
  Options options;
  const char* backend = std::getenv("TENON_RANDOM_BACKEND");
  options.backend = backend ? backend : "inductor";
  if (is_on_gpu()) options.options["numerics"] = "'strict'";
  return options;
}

std::string fault_told_by(const std::exception& e) {
  std::string_view told = e.what();
  return is_on_gpu() && told.find(" cannot run on cuda") != told.npos ? "" : std::string(told);
}

/// What is wrong with the recipe's code, or nothing.
std::string fault_of(const Recipe& recipe) {
  Options options = options_of_run();
  options.fullgraph = true;
  options.dynamic = recipe.is_symbolic;
  Arguments first(recipe, 0);
  auto f = tenon::compile(
      [&recipe, a = first.captured[0], b = first.captured[1]](const Tensors& given) {
        return run(recipe, Arguments::joined(recipe, given, a, b));
      },
      options);
  try {
    for (size_t call = 0; call < recipe.runs() + 2; ++call) {
      size_t r = call % recipe.runs();
      Tensors found = f(Arguments(recipe, r).given);
      for (size_t i = 0; i < found.size(); ++i) {
        size_t v = recipe.outputs[i];
        std::string fault = difference(found[i], recipe.values[v], r);
        if (!fault.empty()) return message("call {}, output %{}: {}", call, v, fault);
      }
    }
  } catch (const std::exception& e) {
    return fault_told_by(e);
  }
  if (f.stats().compiles != 1)
    return message("compiled {} times: {}", f.stats().compiles, recompiles(f.explain()));
  return "";
}

// The first value that is wrong when it is the only output, else the recipe as it is.
std::string smallest_fault(const Recipe& recipe, std::string (*fault_in)(const Recipe&)) {
  for (size_t v = recipe.inputs.size(); v < recipe.values.size(); ++v) {
    Recipe part = with_outputs(recipe, {v});
    std::string fault = fault_in(part);
    if (!fault.empty()) return text_of(part) + fault;
  }
  return "only together:\n" + text_of(with_outputs(recipe, recipe.outputs));
}

int64_t setting(const char* name, int64_t standard) {
  const char* given = std::getenv(name);
  return given ? std::atoll(given) : standard;
}

TEST_F(InductorRandom, GraphsGiveWhatEagerKernelsGive) {
  int64_t first = setting("TENON_RANDOM_FIRST", 0), faults = 0;
  for (int64_t seed = first; seed < first + setting("TENON_RANDOM_GRAPHS", 400); ++seed) {
    Recipe recipe = random_recipe(uint32_t(seed));
    if (setting("TENON_RANDOM_SHOW", 0)) std::fputs(text_of(recipe).c_str(), stderr);
    std::string fault = fault_of(recipe);
    if (fault.empty()) continue;
    ADD_FAILURE() << "seed " << seed << ": " << fault << "\n" << smallest_fault(recipe, fault_of);
    if (++faults >= setting("TENON_RANDOM_FAULTS", 3)) break;
  }
}

// ---- gradients

/// Gradients of all floating arguments, of a sum in which every element has its own weight.
Tensors gradients_of(const Recipe& recipe, Device where, bool wide,
                     const std::function<Tensors(const Tensors&)>& body) {
  Tensors arguments, leaves, out;
  for (const Input& input : recipe.inputs) {
    if (input.is_captured) continue;
    const Tensor& t = input.by_run[0];
    bool is_leaf = is_floating(t.dtype());
    arguments.push_back(t.clone().to(where, wide && is_leaf ? Dtype::f64 : t.dtype()));
    if (is_leaf) leaves.push_back(arguments.back().requires_grad_());
  }
  Tensor loss;
  for (const Tensor& t : body(arguments)) {
    if (!is_floating(t.dtype()) || !t.requires_grad()) continue;
    Tensor weights = (count_on(t, t.numel().guard_int(), Dtype::f64) * 0.7).cos();
    Tensor part = (t.to(Dtype::f64) * weights.view(t.sizes())).sum();
    loss = loss.defined() ? loss + part : part;
  }
  if (loss.defined()) loss.backward();
  for (const Tensor& leaf : leaves)
    out.push_back(leaf.grad().defined() ? leaf.grad() : zeros_like(leaf));
  return out;
}

/// Nothing where rounding alone makes gradients others, or they are not finite.
std::string difference(const Tensor& found, const Tensor& eager, const Tensor& wide,
                       double epsilon) {
  std::vector<double> f = doubles_of(found), e = doubles_of(eager), w = doubles_of(wide);
  double error = 0, largest = 1;
  for (size_t i = 0; i < w.size(); ++i) {
    if (!std::isfinite(w[i]) || !std::isfinite(e[i])) return "";
    error = std::max(error, std::fabs(e[i] - w[i]));
    largest = std::max(largest, std::fabs(w[i]));
  }
  double allowed = 16 * error + 1000 * epsilon * largest;
  if (allowed > 0.05 * largest) return "";
  for (size_t i = 0; i < f.size(); ++i)
    if (!(std::fabs(f[i] - w[i]) <= allowed))
      return message("gradient {} is {}, eagerly {}, in f64 {}, allowed {}", i, f[i], e[i], w[i],
                     allowed);
  return "";
}

std::string fault_of_gradients(const Recipe& recipe) {
  Arguments first(recipe, 0), here(recipe, 0, kCPU);
  const Tensor &a = first.captured[0], &b = first.captured[1];
  auto eager = [&](bool wide) {
    auto widened = [&](const Tensor& t) {
      return wide && t.defined() && is_floating(t.dtype()) ? t.to(Dtype::f64) : t;
    };
    Tensor c = widened(here.captured[0]), d = widened(here.captured[1]);
    return gradients_of(recipe, kCPU, wide, [&](const Tensors& given) {
      return run(recipe, Arguments::joined(recipe, given, c, d), wide);
    });
  };
  auto f = tenon::compile(
      [&](const Tensors& given) { return run(recipe, Arguments::joined(recipe, given, a, b)); },
      options_of_run());
  Tensors narrow, wide;
  try {
    narrow = eager(false), wide = eager(true);
  } catch (const std::exception&) {
    return "";  // an op without a gradient
  }
  double epsilon = 0;
  for (const Value& v : recipe.values) epsilon = std::max(epsilon, epsilon_of(v.narrow[0].dtype()));
  try {
    Tensors found =
        gradients_of(recipe, device(), false, [&](const Tensors& given) { return f(given); });
    for (size_t i = 0; i < found.size(); ++i) {
      std::string fault = difference(found[i], narrow[i], wide[i], epsilon);
      if (!fault.empty()) return message("leaf {}: {}", i, fault);
    }
  } catch (const std::exception& e) {
    return fault_told_by(e);
  }
  return "";
}

/// Whether its gradients depend on which of equal elements an op takes, which is the device's choice.
bool chooses_among_equals(const Recipe& recipe) {
  return is_on_gpu() && std::ranges::any_of(recipe.steps, [](const Step& step) {
           return std::string_view(random_ops()[step.op].name) == "topk";
         });
}

TEST_F(InductorRandom, GradientsAreThoseOfEagerKernels) {
  int64_t first = setting("TENON_RANDOM_FIRST", 0), faults = 0;
  for (int64_t seed = first; seed < first + setting("TENON_RANDOM_GRAPHS", 400); ++seed) {
    Recipe recipe = random_recipe(uint32_t(seed));
    if (recipe.is_symbolic || chooses_among_equals(recipe)) continue;
    std::string fault = fault_of_gradients(recipe);
    if (fault.empty()) continue;
    ADD_FAILURE() << "seed " << seed << ": " << fault << "\n"
                  << smallest_fault(recipe, fault_of_gradients);
    if (++faults >= setting("TENON_RANDOM_FAULTS", 3)) break;
  }
}

}  // namespace
}  // namespace tenon::random_graphs
