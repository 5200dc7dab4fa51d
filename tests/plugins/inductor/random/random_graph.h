// Random graphs for a code generator: what they are made of.
//
// Model: a recipe is a list of steps over a pool of tensors, whose first entries are the inputs. It
// is made while it runs: after each step the values are there three times, at the dtypes of the
// recipe (what eager kernels give), with every floating dtype as f64 (what they should give), and
// that for each of the sizes that the recipe shall serve. So a step is chosen by what its operands
// are: comparisons, roundings and positions only of values without rounding errors, nothing that
// leaves the range of narrow floats. The same recipe is then compiled and run again.
#pragma once

#include <tenon/tenon.h>

#include <functional>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <vector>

namespace tenon::random_graphs {

using Tensors = std::vector<Tensor>;

struct Step {
  size_t op = 0;               ///< of random_ops()
  std::vector<size_t> in;      ///< places in the pool
  std::vector<int64_t> n;      ///< dimensions, positions, kinds: as the op reads them
  std::vector<double> number;  ///< scalars
  Dtype dtype = Dtype::f32;    ///< of casts
  Tensors weights;             ///< of layers: captured, at the dtype of the first operand
  double terms = 1;            ///< numbers that a layer adds up for an element
};

/// The operands of a step in one run. Where `wide`, floating dtypes stand for f64.
struct Operands {
  const Step& step;
  Tensors in;
  bool wide;
  Dtype dtype() const { return wide && is_floating(step.dtype) ? Dtype::f64 : step.dtype; }
  /// Undefined where the layer has fewer.
  Tensor weight(size_t i) const {
    if (i >= step.weights.size()) return {};
    const Tensor& w = step.weights[i];
    return w.to(in[0].device(), wide ? Dtype::f64 : w.dtype());
  }
};

/// 0, 1, ... below `end`, where `t` is.
inline Tensor count_on(const Tensor& t, SymInt end, Dtype dtype = Dtype::i64) {
  return arange(Number(end), dtype, {}, t.device());
}

/// A tensor of the recipe, by run.
struct Value {
  Tensors narrow, wide;
  bool is_exact = false;  ///< no rounding has happened on the way
  double largest = 0;     ///< of what is finite here and, fading, in what it was made from
  double epsilon = 0;     ///< of the narrowest dtype in which something was rounded
  double terms = 1;       ///< elements of an operand for each of the result: what may be added up
};

class Chooser;

struct RandomOp {
  const char* name;
  int weight;
  bool rounds;  ///< whether results are rounded even if they look exact
  /// Fills in operands and numbers; false where the pool has nothing for the op.
  std::function<bool(Chooser&, Step&)> choose;
  std::function<Tensor(const Operands&)> apply;
  /// Whether integers become floats, which then have to be wide.
  bool makes_floats = false;
  bool is_layer = false;  ///< of networks
};

/// All ops, and what each file adds.
const std::vector<RandomOp>& random_ops();
/// The distance of 1 to the next number; 0 for what is not a floating dtype.
double epsilon_of(Dtype dtype);
void add_pointwise_ops(std::vector<RandomOp>& ops);
void add_view_ops(std::vector<RandomOp>& ops);
void add_reduction_ops(std::vector<RandomOp>& ops);
void add_index_ops(std::vector<RandomOp>& ops);
void add_layer_ops(std::vector<RandomOp>& ops);
void add_window_ops(std::vector<RandomOp>& ops);
void add_order_ops(std::vector<RandomOp>& ops);
void add_write_ops(std::vector<RandomOp>& ops);

enum Kinds : uint8_t { floats = 1, integers = 2, bools = 4, numbers = 3, all_kinds = 7 };

/// Draws operands out of the pool.
class Chooser {
 public:
  Chooser(std::mt19937& random, const std::vector<Value>& pool) : random(random), pool(pool) {}

  int64_t below(int64_t n) { return int64_t(random() % uint64_t(n)); }
  int64_t between(int64_t low, int64_t high) { return low + below(high - low + 1); }
  bool once_in(int64_t n) { return below(n) == 0; }

  const Tensor& first(size_t v) const { return pool[v].narrow[0]; }
  int64_t dim(size_t v) const { return first(v).dim(); }
  bool is_of(size_t v, int kinds) const;
  /// Whether this dimension has at least `least` elements in every run.
  bool has_size(size_t v, int64_t d, int64_t least) const;
  /// Whether the size is one number in all runs; which.
  std::optional<int64_t> fixed_size(size_t v, int64_t d) const;
  int64_t most_elements(size_t v) const;
  bool is_empty(size_t v) const;
  bool is_broadcastable(size_t a, size_t b) const;
  /// Whether differences between its elements are more than rounding errors.
  bool is_smooth(size_t v) const;

  /// One that fits, rather a late one; puts it into the step.
  bool take(Step& step, const std::function<bool(size_t)>& fits);
  bool take(Step& step, int kinds, bool exact = false, int64_t least_dims = 0);
  /// A second operand that broadcasts with the first.
  bool take_fitting(Step& step, int kinds, bool exact = false);
  /// Dimensions of the first operand, at least one, in n; none: all.
  void take_dims(Step& step);

  std::mt19937& random;
  const std::vector<Value>& pool;
};

struct Input {
  Tensors by_run;
  bool is_captured = false;  ///< by the callable, so that it counts as a parameter
};

struct Recipe {
  std::vector<Input> inputs;
  std::vector<Step> steps;
  std::vector<size_t> outputs;
  std::vector<Value> values;  ///< of the pool: what was found while it was made
  bool is_symbolic = false;
  bool is_network = false;  ///< layers, most of all
  size_t runs() const { return inputs[0].by_run.size(); }
};

Recipe random_recipe(uint32_t seed);
/// The outputs for these inputs, which stand in the order of the recipe.
Tensors run(const Recipe& recipe, const Tensors& inputs, bool wide = false);
std::string text_of(const Recipe& recipe);
/// The recipe with these outputs only, and without what they do not need.
Recipe with_outputs(const Recipe& recipe, std::vector<size_t> outputs);

}  // namespace tenon::random_graphs
