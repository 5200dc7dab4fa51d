// Sums of products, written as loops: all of them are folds of a product of two loads, one of which
// may be masked where a window reaches into the padding.
#include "loops_of_steps.h"

#include <tenon/plugin.hpp>

#include <array>

namespace inductor_cuda {

using loopir::Buffer;
using loopir::Convolution;
using loopir::ConvolutionGradient;
using loopir::Expressions;
using loopir::Fold;
using loopir::Id;
using loopir::Ids;
using loopir::Loop;
using loopir::none;
using loopir::Product;
using loopir::View;

namespace {

using Space = std::array<Id, 3>;

class LoopMaker {
 public:
  explicit LoopMaker(loopir::Program& program) : program_(program), x_(program.expressions) {}
  std::vector<loopir::Step> steps;

  void add(const Product& p);
  void add(const Convolution& c);
  void add(const ConvolutionGradient& g);

 private:
  /// Indices over `sizes`; those of size 1 are 0.
  Ids variables(const Ids& sizes);
  Id at(const View& v, const Ids& indices, Id mask = none);
  Id place(const View& v, const Ids& indices);
  int32_t dtype_of(const View& v) const { return program_.buffers[v.buffer].dtype; }
  /// In [0, size), as a bool value.
  Id is_within(Id index, Id size);
  Id both(Id p, Id q) { return p == none ? q : q == none ? p : x_.apply(TN_F_BAND, TN_BOOL, p, q); }
  Id product_of(Id a, Id b, int32_t dtype) {
    return x_.apply(TN_F_MUL, dtype, x_.cast(a, dtype), x_.cast(b, dtype));
  }
  using Finish = std::function<Id(Id sum, const Ids& indices)>;
  void sum(const View& result, const Ids& outer, const Ids& reduced, Id value, int32_t dtype,
           const std::string& name, const Finish& finish);

  loopir::Program& program_;
  Expressions& x_;
};

Ids LoopMaker::variables(const Ids& sizes) {
  Ids out;
  for (Id size : sizes) out.push_back(x_.is(size, 1) ? x_.constant(0) : x_.variable(size));
  return out;
}

Id LoopMaker::place(const View& v, const Ids& indices) {
  Id out = v.offset;
  for (size_t d = 0; d < indices.size(); ++d)
    out = x_.add(out, x_.multiply(indices[d], v.strides[d]));
  return out;
}

Id LoopMaker::at(const View& v, const Ids& indices, Id mask) {
  return x_.load(v.buffer, place(v, indices), dtype_of(v), mask);
}

Id LoopMaker::is_within(Id index, Id size) {
  Id i = x_.index_value(index);
  Id from = x_.apply(TN_F_GE, TN_BOOL, i, x_.number(int64_t{0}, TN_I64));
  return both(from, x_.apply(TN_F_LT, TN_BOOL, i, x_.index_value(size)));
}

Ids only_variables(const Expressions& x, const Ids& indices) {
  Ids out;
  for (Id i : indices)
    if (x.index_at(i).kind == loopir::IndexKind::variable) out.push_back(i);
  return out;
}

// A fold into memory of its own, and a loop over that.
void LoopMaker::sum(const View& result, const Ids& outer, const Ids& reduced, Id value,
                    int32_t dtype, const std::string& name, const Finish& finish) {
  Ids strides(result.sizes.size());
  Id step = x_.constant(1);
  for (size_t d = strides.size(); d-- > 0;) {
    strides[d] = step;
    step = x_.multiply(step, result.sizes[d]);
  }
  View sums{program_.add_buffer({Buffer::Place::temporary, 0, dtype, result.sizes, strides, name}),
            x_.constant(0), result.sizes, strides};
  Loop fold;
  fold.outer = only_variables(x_, outer);
  fold.reduced = only_variables(x_, reduced);
  fold.fold = fold.reduced.empty() ? Fold::none : Fold::sum;
  fold.value = value;
  fold.buffer = sums.buffer;
  fold.index = place(sums, outer);
  fold.name = name;
  steps.emplace_back(std::move(fold));
  Ids own = variables(result.sizes);
  Loop last;
  last.outer = only_variables(x_, own);
  last.value = x_.cast(finish(at(sums, own), own), dtype_of(result));
  last.buffer = result.buffer;
  last.index = place(result, own);
  last.name = name;
  steps.emplace_back(std::move(last));
}

int32_t summed_in(int32_t dtype) { return dtype == TN_F64 ? TN_F64 : TN_F32; }

void LoopMaker::add(const Product& p) {
  int32_t dtype = summed_in(dtype_of(p.left));
  Ids outer = variables(p.result.sizes);
  Ids k = variables({p.left.sizes.back()});
  Ids left = outer, right = outer;
  left.back() = k[0];
  right[outer.size() - 2] = k[0];
  sum(p.result, outer, k, product_of(at(p.left, left), at(p.right, right), dtype), dtype, p.name,
      [&](Id made, const Ids& i) {
        if (p.alpha != 1) made = x_.apply(TN_F_MUL, dtype, made, x_.number(p.alpha, dtype));
        if (!p.bias) return made;
        return x_.apply(TN_F_ADD, dtype, made, x_.cast(at(*p.bias, {i.back()}), dtype));
      });
}

// result[n, o, y] = sum over c, k of source[n, group of o + c, y stride - padding + k dilation] *
// weights[o, c, k]
void LoopMaker::add(const Convolution& c) {
  int32_t dtype = summed_in(c.dtype);
  Ids outer = variables(c.result.sizes);
  Ids taps = variables({c.weights.sizes.begin() + 1, c.weights.sizes.end()});
  Id of_group = x_.floordiv(c.weights.sizes[0], x_.constant(c.groups));
  Id group = x_.floordiv(outer[1], of_group);
  Ids source{outer[0], x_.add(x_.multiply(group, c.weights.sizes[1]), taps[0])};
  Id mask = none;
  for (size_t d = 0; d < 3; ++d) {
    Id begin =
        x_.add(x_.multiply(outer[2 + d], x_.constant(c.stride[d])), x_.constant(-c.padding[d]));
    source.push_back(x_.add(begin, x_.multiply(taps[1 + d], x_.constant(c.dilation[d]))));
    if (c.padding[d]) mask = both(mask, is_within(source.back(), c.source.sizes[2 + d]));
  }
  Ids weights{outer[1]};
  weights.insert(weights.end(), taps.begin(), taps.end());
  sum(c.result, outer, taps, product_of(at(c.source, source, mask), at(c.weights, weights), dtype),
      dtype, c.name, [&](Id made, const Ids& i) {
        if (!c.bias) return made;
        return x_.apply(TN_F_ADD, dtype, made, x_.cast(at(*c.bias, {i[1]}), dtype));
      });
}

// Of the weights: the source's elements are read as the convolution reads them, summed over images
// and results. Of the source: over the results whose windows have the element.
void LoopMaker::add(const ConvolutionGradient& g) {
  int32_t dtype = summed_in(g.dtype);
  const View& weights = g.of_weights ? g.result : g.operand;
  const View& source = g.of_weights ? g.operand : g.result;
  Id of_group = x_.floordiv(weights.sizes[0], x_.constant(g.groups));
  Ids outer = variables(g.result.sizes), reduced, gradient, other;
  Id mask = none;
  if (g.of_weights) {
    Ids sizes{g.gradient.sizes[0]};
    sizes.insert(sizes.end(), g.gradient.sizes.begin() + 2, g.gradient.sizes.end());
    reduced = variables(sizes);
    gradient = {reduced[0], outer[0], reduced[1], reduced[2], reduced[3]};
    Id group = x_.floordiv(outer[0], of_group);
    other = {reduced[0], x_.add(x_.multiply(group, weights.sizes[1]), outer[1])};
    for (size_t d = 0; d < 3; ++d) {
      Id begin =
          x_.add(x_.multiply(reduced[1 + d], x_.constant(g.stride[d])), x_.constant(-g.padding[d]));
      other.push_back(x_.add(begin, x_.multiply(outer[2 + d], x_.constant(g.dilation[d]))));
      mask = both(mask, is_within(other.back(), source.sizes[2 + d]));
    }
    Id value = product_of(at(g.gradient, gradient), at(g.operand, other, mask), dtype);
    return sum(g.result, outer, reduced, value, dtype, g.name,
               [](Id made, const Ids&) { return made; });
  }
  Ids sizes{of_group};
  sizes.insert(sizes.end(), weights.sizes.begin() + 2, weights.sizes.end());
  reduced = variables(sizes);
  Id group = x_.floordiv(outer[1], weights.sizes[1]);
  Id channel = x_.add(x_.multiply(group, of_group), reduced[0]);
  gradient = {outer[0], channel};
  other = {channel, x_.mod(outer[1], weights.sizes[1])};
  for (size_t d = 0; d < 3; ++d) {
    Id first = x_.add(outer[2 + d], x_.constant(g.padding[d]));
    Id moved = x_.subtract(first, x_.multiply(reduced[1 + d], x_.constant(g.dilation[d])));
    Id stride = x_.constant(g.stride[d]);
    gradient.push_back(x_.floordiv(moved, stride));
    mask = both(mask, is_within(gradient.back(), g.gradient.sizes[2 + d]));
    if (g.stride[d] > 1)
      mask = both(mask, x_.apply(TN_F_EQ, TN_BOOL, x_.index_value(x_.mod(moved, stride)),
                                 x_.number(int64_t{0}, TN_I64)));
    other.push_back(reduced[1 + d]);
  }
  Id value = product_of(at(g.gradient, gradient, mask), at(g.operand, other), dtype);
  sum(g.result, outer, reduced, value, dtype, g.name, [](Id made, const Ids&) { return made; });
}

}  // namespace

void replace_library_steps(loopir::Program& program) {
  LoopMaker maker(program);
  for (loopir::Step& step : program.steps) {
    if (auto* p = std::get_if<Product>(&step))
      maker.add(*p);
    else if (auto* c = std::get_if<Convolution>(&step))
      maker.add(*c);
    else if (auto* g = std::get_if<ConvolutionGradient>(&step))
      maker.add(*g);
    else if (std::holds_alternative<Loop>(step) || std::holds_alternative<loopir::Extern>(step))
      maker.steps.push_back(std::move(step));
    else
      throw tenon::plugin::declined("attention and recurrent layers are not whole on GPUs");
  }
  program.steps = std::move(maker.steps);
}

}  // namespace inductor_cuda
