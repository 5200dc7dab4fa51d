// Sums of products, written as loops: all of them are folds of a product of two loads, one of which
// may be masked where a window reaches into the padding.
#include "loops_of_steps.h"

#include "products/attention_steps.h"
#include "products/product_steps.h"
#include "products/step_loops.h"

#include <tenon/plugin.hpp>

#include <functional>

namespace inductor_cuda {

using loopir::Convolution;
using loopir::ConvolutionGradient;
using loopir::Expressions;
using loopir::Id;
using loopir::Ids;
using loopir::Loop;
using loopir::none;
using loopir::Product;
using loopir::View;

namespace {

/// The steps as sums, each computed where it stands.
class Sums {
 public:
  explicit Sums(StepLoops& loops) : l_(loops), x_(loops.x) {}

  void add(const Product& p);
  void add(const Convolution& c);
  void add(const ConvolutionGradient& g);

 private:
  using Finish = std::function<Id(Id sum, const Ids& indices)>;
  void sum(const View& result, const Ids& outer, const Ids& reduced, Id value, int32_t dtype,
           const std::string& name, const Finish& finish);
  Id product_of(Id a, Id b, int32_t dtype) {
    return x_.apply(TN_F_MUL, dtype, x_.cast(a, dtype), x_.cast(b, dtype));
  }

  StepLoops& l_;
  Expressions& x_;
};

// A fold into memory of its own, and a loop over that.
void Sums::sum(const View& result, const Ids& outer, const Ids& reduced, Id value, int32_t dtype,
               const std::string& name, const Finish& finish) {
  View sums = l_.sum(result.sizes, outer, reduced, value, dtype, name);
  Ids own = l_.variables(result.sizes);
  l_.store(result, own, finish(l_.at(sums, own), own), name);
}

int32_t summed_in(int32_t dtype) { return dtype == TN_F64 ? TN_F64 : TN_F32; }

void Sums::add(const Product& p) {
  int32_t dtype = summed_in(l_.dtype_of(p.left));
  Ids outer = l_.variables(p.result.sizes);
  Ids k = l_.variables({p.left.sizes.back()});
  Ids left = outer, right = outer;
  left.back() = k[0];
  right[outer.size() - 2] = k[0];
  sum(p.result, outer, k, product_of(l_.at(p.left, left), l_.at(p.right, right), dtype), dtype,
      p.name, [&](Id made, const Ids& i) {
        if (p.alpha != 1) made = x_.apply(TN_F_MUL, dtype, made, x_.number(p.alpha, dtype));
        auto plus = [&](Id more) { return x_.apply(TN_F_ADD, dtype, made, x_.cast(more, dtype)); };
        if (p.bias) made = plus(l_.at(*p.bias, {i.back()}));
        // Before functions are absorbed there is nothing else.
        for (const loopir::EpilogueOp& op : p.epilogue) made = plus(l_.at(op.operand, i));
        return made;
      });
}

// result[n, o, y] = sum over c, k of source[n, group of o + c, y stride - padding + k dilation] *
// weights[o, c, k]
void Sums::add(const Convolution& c) {
  int32_t dtype = summed_in(c.dtype);
  Ids outer = l_.variables(c.result.sizes);
  Ids taps = l_.variables({c.weights.sizes.begin() + 1, c.weights.sizes.end()});
  Id of_group = x_.floordiv(c.weights.sizes[0], x_.constant(c.groups));
  Id group = x_.floordiv(outer[1], of_group);
  Ids source{outer[0], x_.add(x_.multiply(group, c.weights.sizes[1]), taps[0])};
  Id mask = none;
  for (size_t d = 0; d < 3; ++d) {
    Id begin =
        x_.add(x_.multiply(outer[2 + d], x_.constant(c.stride[d])), x_.constant(-c.padding[d]));
    source.push_back(x_.add(begin, x_.multiply(taps[1 + d], x_.constant(c.dilation[d]))));
    if (c.padding[d]) mask = l_.both(mask, l_.is_within(source.back(), c.source.sizes[2 + d]));
  }
  Ids weights{outer[1]};
  weights.insert(weights.end(), taps.begin(), taps.end());
  sum(c.result, outer, taps,
      product_of(l_.at(c.source, source, mask), l_.at(c.weights, weights), dtype), dtype, c.name,
      [&](Id made, const Ids& i) {
        if (!c.bias) return made;
        return x_.apply(TN_F_ADD, dtype, made, x_.cast(l_.at(*c.bias, {i[1]}), dtype));
      });
}

// Of the weights: the source's elements are read as the convolution reads them, summed over images
// and results. Of the source: over the results whose windows have the element.
void Sums::add(const ConvolutionGradient& g) {
  int32_t dtype = summed_in(g.dtype);
  const View& weights = g.of_weights ? g.result : g.operand;
  const View& source = g.of_weights ? g.operand : g.result;
  Id of_group = x_.floordiv(weights.sizes[0], x_.constant(g.groups));
  Ids outer = l_.variables(g.result.sizes), reduced, gradient, other;
  Id mask = none;
  if (g.of_weights) {
    Ids sizes{g.gradient.sizes[0]};
    sizes.insert(sizes.end(), g.gradient.sizes.begin() + 2, g.gradient.sizes.end());
    reduced = l_.variables(sizes);
    gradient = {reduced[0], outer[0], reduced[1], reduced[2], reduced[3]};
    Id group = x_.floordiv(outer[0], of_group);
    other = {reduced[0], x_.add(x_.multiply(group, weights.sizes[1]), outer[1])};
    for (size_t d = 0; d < 3; ++d) {
      Id begin =
          x_.add(x_.multiply(reduced[1 + d], x_.constant(g.stride[d])), x_.constant(-g.padding[d]));
      other.push_back(x_.add(begin, x_.multiply(outer[2 + d], x_.constant(g.dilation[d]))));
      mask = l_.both(mask, l_.is_within(other.back(), source.sizes[2 + d]));
    }
    Id value = product_of(l_.at(g.gradient, gradient), l_.at(g.operand, other, mask), dtype);
    return sum(g.result, outer, reduced, value, dtype, g.name,
               [](Id made, const Ids&) { return made; });
  }
  Ids sizes{of_group};
  sizes.insert(sizes.end(), weights.sizes.begin() + 2, weights.sizes.end());
  reduced = l_.variables(sizes);
  Id group = x_.floordiv(outer[1], weights.sizes[1]);
  Id channel = x_.add(x_.multiply(group, of_group), reduced[0]);
  gradient = {outer[0], channel};
  other = {channel, x_.mod(outer[1], weights.sizes[1])};
  for (size_t d = 0; d < 3; ++d) {
    Id first = x_.add(outer[2 + d], x_.constant(g.padding[d]));
    Id moved = x_.subtract(first, x_.multiply(reduced[1 + d], x_.constant(g.dilation[d])));
    Id stride = x_.constant(g.stride[d]);
    gradient.push_back(x_.floordiv(moved, stride));
    mask = l_.both(mask, l_.is_within(gradient.back(), g.gradient.sizes[2 + d]));
    if (g.stride[d] > 1)
      mask = l_.both(mask, x_.apply(TN_F_EQ, TN_BOOL, x_.index_value(x_.mod(moved, stride)),
                                    x_.number(int64_t{0}, TN_I64)));
    other.push_back(reduced[1 + d]);
  }
  Id value = product_of(l_.at(g.gradient, gradient, mask), l_.at(g.operand, other), dtype);
  sum(g.result, outer, reduced, value, dtype, g.name, [](Id made, const Ids&) { return made; });
}

}  // namespace

void replace_library_steps(loopir::Program& program, const StepOptions& options) {
  StepLoops loops(program);
  Sums sums(loops);
  ProductSteps products(loops);
  auto add_product = [&](Product p) {
    if (!products.add(p)) sums.add(p);
  };
  std::optional<DnnSteps> dnn;
  if (options.dnn_device) dnn.emplace(loops, *options.dnn_device, options.dnn);
  ConvolutionSteps convolutions(loops, options, dnn ? &*dnn : nullptr, add_product);
  AttentionSteps attention(loops, add_product);
  for (loopir::Step& step : program.steps) {
    if (auto* p = std::get_if<Product>(&step)) {
      add_product(std::move(*p));
    } else if (auto* c = std::get_if<Convolution>(&step)) {
      if (!convolutions.add(*c)) sums.add(*c);
    } else if (auto* g = std::get_if<ConvolutionGradient>(&step)) {
      if (!convolutions.add(*g)) sums.add(*g);
    } else if (auto* a = std::get_if<loopir::Attention>(&step)) {
      if (!dnn || !dnn->add(*a)) attention.add(*a);
    } else if (auto* h = std::get_if<loopir::AttentionGradient>(&step)) {
      if (!dnn || !dnn->add(*h)) attention.add(*h);
    } else if (std::holds_alternative<Loop>(step) || std::holds_alternative<loopir::Extern>(step)) {
      loops.steps.push_back(std::move(step));
    } else {
      throw tenon::plugin::declined("recurrent layers are not whole on GPUs");
    }
  }
  program.steps = std::move(loops.steps);
}

}  // namespace inductor_cuda
