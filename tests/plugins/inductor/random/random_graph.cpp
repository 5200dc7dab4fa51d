// Making and running recipes.
#include "random_graph.h"

#include "core/error.h"

#include <algorithm>
#include <cmath>
#include <set>

namespace tenon::random_graphs {

const std::vector<RandomOp>& random_ops() {
  static const std::vector<RandomOp> ops = [] {
    std::vector<RandomOp> out;
    add_pointwise_ops(out);
    add_view_ops(out);
    add_reduction_ops(out);
    add_index_ops(out);
    add_layer_ops(out);
    add_window_ops(out);
    add_order_ops(out);
    add_write_ops(out);
    return out;
  }();
  return ops;
}

double epsilon_of(Dtype dtype) {
  switch (dtype) {
    case Dtype::f64:
      return 0x1p-52;
    case Dtype::f32:
      return 0x1p-23;
    case Dtype::f16:
      return 0x1p-10;
    case Dtype::bf16:
      return 0x1p-7;
    default:
      return 0;
  }
}

// ---- choosing

bool Chooser::is_of(size_t v, int kinds) const {
  Dtype dtype = first(v).dtype();
  return kinds & (is_floating(dtype) ? floats : dtype == Dtype::bool_ ? bools : integers);
}

bool Chooser::has_size(size_t v, int64_t d, int64_t least) const {
  return std::all_of(pool[v].narrow.begin(), pool[v].narrow.end(),
                     [&](const Tensor& t) { return t.size(d).guard_int() >= least; });
}

std::optional<int64_t> Chooser::fixed_size(size_t v, int64_t d) const {
  int64_t size = first(v).size(d).guard_int();
  for (const Tensor& t : pool[v].narrow)
    if (t.size(d).guard_int() != size) return std::nullopt;
  return size;
}

int64_t Chooser::most_elements(size_t v) const {
  int64_t most = 0;
  for (const Tensor& t : pool[v].narrow) most = std::max(most, t.numel().guard_int());
  return most;
}

bool Chooser::is_empty(size_t v) const {
  return std::any_of(pool[v].narrow.begin(), pool[v].narrow.end(),
                     [](const Tensor& t) { return t.numel().guard_int() == 0; });
}

bool Chooser::is_broadcastable(size_t a, size_t b) const {
  int64_t shared = std::min(dim(a), dim(b));
  for (int64_t d = -1; d >= -shared; --d) {
    if (fixed_size(a, d) == 1 || fixed_size(b, d) == 1) continue;
    for (size_t r = 0; r < pool[a].narrow.size(); ++r)
      if (pool[a].narrow[r].size(d).guard_int() != pool[b].narrow[r].size(d).guard_int())
        return false;
  }
  return true;
}

bool Chooser::is_smooth(size_t v) const {
  return pool[v].is_exact || pool[v].largest * pool[v].epsilon < 0.01;
}

bool Chooser::take(Step& step, const std::function<bool(size_t)>& fits) {
  std::vector<size_t> all;
  for (size_t v = 0; v < pool.size(); ++v)
    if (fits(v)) all.push_back(v);
  if (all.empty()) return false;
  size_t late = all.size() > 4 && !once_in(3) ? all.size() - 4 : 0;
  step.in.push_back(all[late + size_t(below(int64_t(all.size() - late)))]);
  return true;
}

bool Chooser::take(Step& step, int kinds, bool exact, int64_t least_dims) {
  return take(step, [&](size_t v) {
    return is_of(v, kinds) && (!exact || pool[v].is_exact) && dim(v) >= least_dims;
  });
}

bool Chooser::take_fitting(Step& step, int kinds, bool exact) {
  size_t a = step.in[0];
  return take(step, [&](size_t v) {
    return is_of(v, kinds) && (!exact || pool[v].is_exact) && is_broadcastable(a, v);
  });
}

void Chooser::take_dims(Step& step) {
  int64_t rank = dim(step.in[0]);
  if (rank == 0 || once_in(6)) return;
  int64_t first_dim = below(rank);
  step.n.push_back(once_in(2) ? first_dim : first_dim - rank);
  for (int64_t d = 0; d < rank; ++d)
    if (d != first_dim && once_in(3)) step.n.push_back(d);
}

// ---- running

namespace {

Tensor apply(const Step& step, const Tensors& pool, bool wide) {
  const RandomOp& op = random_ops()[step.op];
  Operands operands{step, {}, wide};
  for (size_t v : step.in) operands.in.push_back(pool[v]);
  Tensor out = op.apply(operands);
  // Integers stay what they are, also where they wrap around.
  if (!wide || !op.makes_floats || !is_floating(out.dtype())) return out;
  for (Tensor& t : operands.in)
    if (!is_floating(t.dtype())) t = t.to(Dtype::f64);
  return op.apply(operands);
}

Tensor widened(const Tensor& t) { return is_floating(t.dtype()) ? t.to(Dtype::f64) : t; }

std::vector<double> doubles_of(const Tensor& t) { return t.to(Dtype::f64).to_vector<double>(); }

// A value that narrow and wide runs agree on, and that even f32 holds, has not been rounded.
bool is_exact(const Value& v) {
  for (size_t r = 0; r < v.narrow.size(); ++r) {
    std::vector<double> a = doubles_of(v.narrow[r]), b = doubles_of(v.wide[r]);
    for (size_t i = 0; i < a.size(); ++i) {
      if (std::isnan(a[i]) && std::isnan(b[i])) continue;
      if (a[i] != b[i] || double(float(b[i])) != b[i]) return false;
    }
  }
  return true;
}

double largest_of(const Tensors& tensors) {
  double most = 0;
  for (const Tensor& t : tensors)
    for (double x : doubles_of(t))
      if (std::isfinite(x)) most = std::max(most, std::fabs(x));
  return most;
}

constexpr int64_t most_elements = 30000;
constexpr double largest_number = 2000;  // far inside of f16, with rounding errors that stay small

// Elements of the largest operand for each one of the result.
double terms_of(const Step& step, const std::vector<Value>& pool, const Value& out) {
  double most = 1;
  for (size_t v : step.in)
    for (size_t r = 0; r < out.narrow.size(); ++r) {
      double n = double(out.narrow[r].numel().guard_int());
      if (n > 0) most = std::max(most, double(pool[v].narrow[r].numel().guard_int()) / n);
    }
  return most;
}

/// The step's result in all runs; nothing where it is too large for a test.
std::optional<Value> computed(const Step& step, const std::vector<Value>& pool) {
  Value out;
  size_t runs = pool[0].narrow.size();
  for (size_t r = 0; r < runs; ++r) {
    Tensors narrow, wide;
    for (const Value& v : pool) narrow.push_back(v.narrow[r]), wide.push_back(v.wide[r]);
    out.narrow.push_back(apply(step, narrow, false));
    if (out.narrow.back().numel().guard_int() > most_elements) return std::nullopt;
    out.wide.push_back(apply(step, wide, true));
  }
  bool is_float = is_floating(out.narrow[0].dtype());
  out.largest = largest_of(out.wide);
  if (is_float && out.largest > largest_number) return std::nullopt;
  out.is_exact = !is_float || (!random_ops()[step.op].rounds && is_exact(out));
  out.terms = std::max(terms_of(step, pool, out), step.terms);
  out.epsilon = epsilon_of(out.narrow[0].dtype());
  for (size_t v : step.in) {
    if (is_floating(pool[v].narrow[0].dtype()))
      out.largest = std::max(out.largest, pool[v].largest / 4);
    if (pool[v].is_exact) continue;
    out.epsilon = std::max(out.epsilon, pool[v].epsilon);
    out.is_exact = out.is_exact && !is_float;
  }
  return out;
}

size_t random_op(Chooser& chooser, bool of_networks) {
  auto weight = [&](const RandomOp& op) {
    return op.is_layer && of_networks ? 20 * op.weight : op.weight;
  };
  int64_t total = 0;
  for (const RandomOp& op : random_ops()) total += weight(op);
  int64_t at = chooser.below(total);
  for (size_t i = 0;; ++i)
    if ((at -= weight(random_ops()[i])) < 0) return i;
}

void add_step(Recipe& recipe, std::mt19937& random) {
  for (int attempt = 0; attempt < 20; ++attempt) {
    Chooser chooser(random, recipe.values);
    Step step;
    step.op = random_op(chooser, recipe.is_network);
    if (!random_ops()[step.op].choose(chooser, step)) continue;
    std::optional<Value> value;
    try {
      value = computed(step, recipe.values);
    } catch (const std::exception&) {  // eager kernels refuse these operands
      continue;
    }
    if (!value) continue;
    recipe.steps.push_back(std::move(step));
    recipe.values.push_back(std::move(*value));
    return;
  }
}

}  // namespace

Recipe random_inputs(std::mt19937& random);

Recipe random_recipe(uint32_t seed) {
  std::mt19937 random(seed);
  Recipe recipe = random_inputs(random);
  for (const Input& input : recipe.inputs) {
    Value v{input.by_run, {}, true, largest_of(input.by_run), 0, 1};
    for (const Tensor& t : input.by_run) v.wide.push_back(widened(t));
    recipe.values.push_back(std::move(v));
  }
  size_t most = random() % 8 ? 20 : 60;
  for (size_t n = 3 + random() % most; n-- > 0;) add_step(recipe, random);
  recipe.outputs.push_back(recipe.values.size() - 1);
  for (size_t n = random() % 4; n-- > 0;)
    recipe.outputs.push_back(recipe.inputs.size() + random() % (recipe.steps.size() + 1));
  for (size_t& v : recipe.outputs) v = std::min(v, recipe.values.size() - 1);
  return recipe;
}

Tensors run(const Recipe& recipe, const Tensors& inputs, bool wide) {
  Tensors pool = inputs, out;
  for (const Step& step : recipe.steps) pool.push_back(apply(step, pool, wide));
  for (size_t v : recipe.outputs) out.push_back(pool[v]);
  return out;
}

Recipe with_outputs(const Recipe& recipe, std::vector<size_t> outputs) {
  std::set<size_t> needed(outputs.begin(), outputs.end());
  size_t n_inputs = recipe.inputs.size();
  for (size_t i = recipe.steps.size(); i-- > 0;)
    if (needed.contains(n_inputs + i))
      needed.insert(recipe.steps[i].in.begin(), recipe.steps[i].in.end());
  Recipe out = recipe;
  out.steps.clear(), out.values.resize(n_inputs);
  std::vector<size_t> place(recipe.values.size());
  for (size_t v = 0; v < place.size(); ++v) {
    if (v < n_inputs) place[v] = v;
    if (v < n_inputs || !needed.contains(v)) continue;
    Step step = recipe.steps[v - n_inputs];
    for (size_t& in : step.in) in = place[in];
    place[v] = out.values.size();
    out.steps.push_back(std::move(step));
    out.values.push_back(recipe.values[v]);
  }
  for (size_t& v : outputs) v = place[v];
  out.outputs = std::move(outputs);
  return out;
}

std::string text_of(const Recipe& recipe) {
  std::string text = recipe.is_symbolic ? "symbolic sizes\n" : "";
  auto shapes = [](const Value& v) {
    std::string out;
    for (const Tensor& t : v.narrow) out += (out.empty() ? "" : " | ") + to_text(t);
    return out;
  };
  for (size_t v = 0; v < recipe.values.size(); ++v) {
    text += message("%{}: {} = ", v, shapes(recipe.values[v]));
    if (v < recipe.inputs.size()) {
      text += recipe.inputs[v].is_captured ? "captured\n" : "input\n";
      continue;
    }
    const Step& step = recipe.steps[v - recipe.inputs.size()];
    text += random_ops()[step.op].name;
    for (size_t in : step.in) text += message(" %{}", in);
    for (int64_t n : step.n) text += message(" {}", n);
    for (double n : step.number) text += message(" {}f", n);
    text += message(" {}\n", name_of(step.dtype));
  }
  text += "outputs";
  for (size_t v : recipe.outputs) text += message(" %{}", v);
  return text + "\n";
}

}  // namespace tenon::random_graphs
