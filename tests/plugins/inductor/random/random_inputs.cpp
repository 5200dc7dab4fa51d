// Inputs of recipes: shapes that go together, layouts, numbers with few bits, and now and then what
// is not a number.
#include "random_graph.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace tenon::random_graphs {

namespace {

/// A size: by run.
using Size = std::vector<int64_t>;
using Shape = std::vector<Size>;

class InputMaker {
 public:
  explicit InputMaker(std::mt19937& random) : random(random) {}

  Recipe run() {
    Recipe recipe;
    recipe.is_symbolic = once_in(3);
    recipe.is_network = once_in(3);
    runs_ = recipe.is_symbolic ? 3 : 1;
    Shape base = recipe.is_network ? images() : base_shape(recipe.is_symbolic);
    Dtype main = recipe.is_network ? float_dtype() : any_dtype();
    int64_t n = 1 + below(4), captured = 0;
    for (int64_t i = 0; i < n; ++i) {
      Shape shape = i == 0 ? base : derived(base);
      bool captures = captured < 2 && i > 0 && once_in(3) && is_fixed(shape);
      captured += captures;
      recipe.inputs.push_back(
          {tensors(shape, once_in(2) ? main : any_dtype(), captures), captures});
    }
    return recipe;
  }

 private:
  int64_t below(int64_t n) { return int64_t(random() % uint64_t(n)); }
  bool once_in(int64_t n) { return below(n) == 0; }
  template <class T, size_t N>
  T one_of(const T (&all)[N]) {
    return all[below(int64_t(N))];
  }

  Dtype any_dtype() {
    constexpr Dtype all[] = {Dtype::f32, Dtype::f32,  Dtype::f32,  Dtype::f32, Dtype::f64,
                             Dtype::f64, Dtype::bf16, Dtype::bf16, Dtype::f16, Dtype::i64,
                             Dtype::i64, Dtype::i32,  Dtype::i32,  Dtype::u8,  Dtype::bool_};
    return one_of(all);
  }

  Dtype float_dtype() {
    constexpr Dtype all[] = {Dtype::f32, Dtype::f32, Dtype::f32,
                             Dtype::f32, Dtype::f64, Dtype::bf16};
    return one_of(all);
  }

  static int64_t product(const Shape& shape) {
    int64_t most = 1;
    for (const Size& s : shape) most *= std::max<int64_t>(*std::max_element(s.begin(), s.end()), 1);
    return most;
  }
  static bool is_fixed(const Shape& shape) {
    return std::all_of(shape.begin(), shape.end(), [](const Size& s) {
      return std::all_of(s.begin(), s.end(), [&](int64_t n) { return n == s[0]; });
    });
  }

  // Sizes that change are larger than those that stay and than each other's in the first run, so
  // that no two are taken for one.
  Shape base_shape(bool symbolic) {
    constexpr int64_t usual[] = {1, 2, 3, 3, 4, 6, 8, 15, 16, 17, 20, 33, 64, 100};
    const Size changing[] = {{17, 16, 100}, {33, 47, 64}, {100, 25, 16}, {48, 32, 23}};
    Shape shape;
    size_t next = size_t(below(4));
    for (int64_t d = 0, rank = below(symbolic ? 4 : 5) + symbolic; d < rank; ++d) {
      bool changes = symbolic && (d == 0 || once_in(3));
      shape.push_back(changes ? changing[next++ % 4] : Size(runs_, one_of(usual)));
      if (!symbolic && once_in(30)) shape.back() = {0};
      if (product(shape) > 12000) shape.pop_back();
    }
    if (symbolic)
      for (Size& s : shape)
        if (s[0] == s[1] && s[0] >= 15) s = Size(runs_, 6);
    return shape;
  }

  // Images, or rows, of some channels; as many of them as the run has.
  Shape images() {
    constexpr int64_t channels[] = {1, 2, 3, 4, 6, 8, 16, 24}, sides[] = {1, 4, 5, 7, 8, 12};
    Shape shape{runs_ > 1 ? Size{17, 20, 31} : Size{1 + below(3)}, Size(runs_, one_of(channels))};
    int64_t n = 1 + below(2) + once_in(4);
    constexpr int64_t short_sides[] = {1, 2, 3, 4, 5};
    for (int64_t d = 0; d < n; ++d)
      shape.push_back(Size(runs_, n == 3 ? one_of(short_sides) : one_of(sides)));
    return shape;
  }

  Shape derived(const Shape& base) {
    Shape shape = base;
    if (once_in(3)) shape.erase(shape.begin(), shape.begin() + below(int64_t(shape.size()) + 1));
    for (Size& s : shape)
      if (once_in(5)) s = Size(runs_, 1);
    if (once_in(6)) std::shuffle(shape.begin(), shape.end(), random);
    return shape;
  }

  Tensors tensors(const Shape& shape, Dtype dtype, bool captured) {
    bool has_specials = once_in(5);
    int64_t layout = once_in(2) ? 0 : 1 + below(5);
    uint32_t order = uint32_t(random());
    Tensors out;
    for (size_t r = 0; r < runs_; ++r) {
      std::vector<int64_t> sizes;
      for (const Size& s : shape) sizes.push_back(s[r]);
      out.push_back(captured && r > 0 ? out[0]
                                      : laid_out(sizes, dtype, layout, order, has_specials));
    }
    return out;
  }

  // Of these sizes, as a view of something larger or in another order.
  Tensor laid_out(std::vector<int64_t> sizes, Dtype dtype, int64_t layout, uint32_t order,
                  bool has_specials) {
    int64_t rank = int64_t(sizes.size());
    int64_t d = rank ? int64_t(order % uint32_t(rank)) : 0;
    // Strides that are not a product of sizes are guarded.
    if (runs_ > 1 && rank > 1 && (layout == 2 || layout == 3)) layout = 0;
    if (rank == 0 || layout == 0) return filled(sizes, dtype, has_specials);
    std::vector<int64_t> larger = sizes;
    switch (layout) {
      case 1:
        std::swap(larger[0], larger[size_t(d)]);
        return filled(larger, dtype, has_specials).transpose(0, d);
      case 2:
        larger[size_t(d)] = sizes[size_t(d)] * 2;
        return slice(filled(larger, dtype, has_specials), d, 1, std::nullopt, 2);
      case 3:
        larger[size_t(d)] = sizes[size_t(d)] + 3;
        return filled(larger, dtype, has_specials).narrow(d, 2, sizes[size_t(d)]);
      case 4:
        if (sizes[size_t(d)] < 2) return filled(sizes, dtype, has_specials);
        larger[size_t(d)] = 1;
        return filled(larger, dtype, has_specials).expand(sizes);
      default:
        if (rank != 4) return filled(sizes, dtype, has_specials);
        larger = {sizes[0], sizes[2], sizes[3], sizes[1]};
        return filled(larger, dtype, has_specials).permute({0, 3, 1, 2});
    }
  }

  // Eighths between -4 and 4: exact in every floating dtype, and so are a few operations on them.
  Tensor filled(const std::vector<int64_t>& sizes, Dtype dtype, bool has_specials) {
    int64_t n = 1;
    for (int64_t s : sizes) n *= s;
    if (!is_floating(dtype)) return integers_of(sizes, dtype, n, has_specials);
    constexpr double infinity = std::numeric_limits<double>::infinity();
    constexpr double specials[] = {std::numeric_limits<double>::quiet_NaN(), infinity, -infinity,
                                   -0.0};
    std::vector<double> values;
    for (int64_t i = 0; i < n; ++i) {
      values.push_back(double(below(65) - 32) / 8);
      if (has_specials && once_in(12)) values.back() = one_of(specials);
    }
    return tensor(values, IntList(sizes)).to(dtype);
  }
  Tensor integers_of(const std::vector<int64_t>& sizes, Dtype dtype, int64_t n, bool has_specials) {
    int64_t limit = dtype == Dtype::i32 ? std::numeric_limits<int32_t>::max()
                                        : std::numeric_limits<int64_t>::max();
    std::vector<int64_t> values;
    for (int64_t i = 0; i < n; ++i) {
      values.push_back(dtype == Dtype::u8      ? below(has_specials ? 256 : 10)
                       : dtype == Dtype::bool_ ? below(2)
                                               : below(19) - 9);
      bool is_wide = dtype == Dtype::i32 || dtype == Dtype::i64;
      if (has_specials && is_wide && once_in(12)) values.back() = once_in(2) ? limit : -limit - 1;
    }
    return tensor(values, IntList(sizes)).to(dtype);
  }

  std::mt19937& random;
  size_t runs_ = 1;
};

}  // namespace

Recipe random_inputs(std::mt19937& random) { return InputMaker(random).run(); }

}  // namespace tenon::random_graphs
