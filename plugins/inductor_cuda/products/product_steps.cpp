// Products in the form that the library takes.
#include "product_steps.h"

#include "problem.h"

namespace inductor_cuda {

using loopir::Product;
using loopir::View;

namespace {

constexpr int64_t few_rows = 4;

/// What is known of a dimension's stride: 1, or the size is.
bool is_dense(const loopir::Expressions& x, const View& v, size_t d) {
  return x.is(v.strides[d], 1) || x.is(v.sizes[d], 1);
}
bool is_other(const loopir::Expressions& x, const View& v, size_t d) {
  auto stride = x.number_of(v.strides[d]);
  return !is_dense(x, v, d) && stride && *stride != 1;
}
bool repeats(const loopir::Expressions& x, const View& v, size_t d) {
  return x.is(v.strides[d], 0) && !x.is(v.sizes[d], 1);
}

}  // namespace

bool ProductSteps::has_few_rows(const Product& p) const {
  auto rows = x_.number_of(p.result.sizes[p.result.sizes.size() - 2]);
  return rows && *rows <= few_rows;
}

View ProductSteps::readable(const View& v, const std::string& name) {
  size_t row = v.sizes.size() - 2, column = row + 1;
  bool has_form = !(is_other(x_, v, row) && is_other(x_, v, column)) && !repeats(x_, v, row) &&
                  !repeats(x_, v, column);
  if (has_form) return v;
  View copy = l_.temporary(l_.dtype_of(v), v.sizes, name);
  Ids own = l_.variables(v.sizes);
  l_.store(copy, own, l_.at(v, own), name);
  return copy;
}

bool ProductSteps::add(Product p) {
  if (has_few_rows(p)) return false;
  p.left = readable(p.left, p.name);
  p.right = readable(p.right, p.name);
  int32_t dtype = l_.dtype_of(p.left), result = l_.dtype_of(p.result);
  bool is_apart = p.bias && (dtype == TN_F64 || l_.dtype_of(*p.bias) != result);
  if (!is_apart) {
    l_.steps.emplace_back(std::move(p));
    return true;
  }
  int32_t sums = dtype == TN_F64 ? TN_F64 : TN_F32;
  View to = p.result, bias = *p.bias;
  std::string name = p.name;
  View product = p.result = l_.temporary(sums, to.sizes, name);
  p.bias.reset();
  l_.steps.emplace_back(std::move(p));
  Ids own = l_.variables(to.sizes);
  Id added = x_.cast(l_.at(bias, {own.back()}), sums);
  l_.store(to, own, x_.apply(TN_F_ADD, sums, l_.at(product, own), added), name);
  return true;
}

bool can_absorb(const loopir::Program& program, const loopir::Item& item) {
  auto* product = std::get_if<Product>(&item);
  if (!product) return false;
  auto finish = finish_of(product->epilogue);
  if (!finish) return false;
  // The library has them for sums in f32.
  bool is_wide = program.buffers[product->left.buffer].dtype == TN_F64;
  return !is_wide || (finish->function == Function::identity);
}

}  // namespace inductor_cuda
