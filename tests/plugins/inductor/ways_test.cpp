// Every way to do a product or a convolution gives the same, on a host of four threads.
#include <inductor_runtime/calls/library_calls.h>
#include "plugins/plain_host.h"

#include <cmath>
#include <vector>

namespace inductor {
namespace {

using loopir::Buffer;
using loopir::Id;
using loopir::Ids;
using loopir::View;
using loopir::Way;

class InductorWays : public PlainHost<4> {
 protected:
  /// A tensor of these sizes and strides, with made-up numbers.
  View add(const std::vector<int64_t>& sizes, const std::vector<int64_t>& strides) {
    Ids s, t;
    size_t n = 1;
    for (int64_t size : sizes) s.push_back(program_.expressions.constant(size)), n *= size_t(size);
    for (int64_t stride : strides) t.push_back(program_.expressions.constant(stride));
    std::vector<float>& numbers = memory_.emplace_back(n);
    for (size_t i = 0; i < n; ++i) numbers[i] = std::sin(float(i * 7 + memory_.size()));
    Buffer buffer;
    buffer.place = Buffer::Place::input;
    buffer.sizes = s, buffer.strides = t;
    Id id = program_.add_buffer(std::move(buffer));
    return {id, program_.expressions.constant(0), s, t};
  }

  template <class Step>
  std::vector<float> result_of(Step step, Way way, bool is_constant) {
    step.way = way;
    auto call = prepare(program_, step, is_constant, Workers{});
    std::vector<void*> pointers;
    for (std::vector<float>& m : memory_) pointers.push_back(m.data());
    std::vector<float>& result = memory_[step.result.buffer];
    std::fill(result.begin(), result.end(), NAN);
    Memory packed;
    if (is_constant) packed = call->pack(pointers, {});
    call->run(pointers, {}, packed.data());
    return result;
  }
  /// The ways beside that of the rules, each of which must give what that gives.
  template <class Step>
  std::vector<Way> agreeing_ways(const Step& step, bool is_constant, float tolerance) {
    std::vector<Way> ways = prepare(program_, step, is_constant, Workers{})->ways({});
    std::vector<float> expected = result_of(step, Way::by_rule, is_constant);
    EXPECT_EQ(ways.front(), Way::by_rule);
    ways.erase(ways.begin());
    for (Way way : ways) {
      std::vector<float> found = result_of(step, way, is_constant);
      float most = 0;
      for (size_t i = 0; i < found.size(); ++i) {
        EXPECT_FALSE(std::isnan(found[i])) << "way " << int(way) << " leaves element " << i;
        most = std::max(most, std::abs(found[i] - expected[i]));
      }
      EXPECT_LE(most, tolerance) << "way " << int(way);
    }
    return ways;
  }

  loopir::Program program_;
  std::vector<std::vector<float>> memory_;
};

TEST_F(InductorWays, ProductsAreCutByRowsOrColumnsOrNotAtAll) {
  loopir::Product p;
  p.left = add({37, 300}, {300, 1});
  p.right = add({300, 500}, {500, 1});
  p.result = add({37, 500}, {500, 1});
  for (bool is_constant : {true, false})
    EXPECT_EQ(agreeing_ways(p, is_constant, 1e-4f), (std::vector{Way::rows, Way::one_thread}));
}

TEST_F(InductorWays, SmallProductsMayBeCutAllTheSame) {
  loopir::Product p;
  p.left = add({3, 20}, {20, 1});
  p.right = add({20, 30}, {30, 1});
  p.result = add({3, 30}, {30, 1});
  EXPECT_EQ(agreeing_ways(p, true, 1e-5f), (std::vector{Way::rows, Way::columns}));
}

TEST_F(InductorWays, ConvolutionsAreTransformedOrProductsOfWindowsOrDirect) {
  loopir::Convolution c;
  c.source = add({1, 24, 1, 12, 12}, {24 * 144, 1, 24 * 144, 24 * 12, 24});
  c.weights = add({40, 24, 1, 3, 3}, {216, 9, 9, 3, 1});
  c.result = add({1, 40, 1, 12, 12}, {40 * 144, 1, 40 * 144, 40 * 12, 40});
  for (int d = 0; d < 3; ++d) c.stride[d] = c.dilation[d] = 1, c.padding[d] = d > 0;
  c.groups = 1;
  c.may_transform = true;
  EXPECT_EQ(agreeing_ways(c, true, 1e-3f),
            (std::vector{Way::direct, Way::direct_in_halves, Way::transformed, Way::windows}));
  c.may_transform = false;
  EXPECT_EQ(agreeing_ways(c, true, 1e-4f), (std::vector{Way::direct, Way::direct_in_halves}));
}

}  // namespace
}  // namespace inductor
