// Other ways to write a call: sizes as one integer, and objects of member functions by pointer.
#include "program.h"

#include <array>

namespace {

using namespace tenon;

template <class F>
struct AtEnd {
  F act;
  ~AtEnd() { act(); }
};
template <class F>
AtEnd<F> guard(F act) {
  return {std::move(act)};
}
void end_a_scope(int& n_ended) {
  auto at_end = guard([&] { ++n_ended; });
}

}  // namespace

namespace tenon::programs {
namespace {

struct Layer {
  Tensor weight;
  Tensor add(const Tensor& x) { return x + weight; }
  Tensor subtract(const Tensor& x) const noexcept { return x - weight; }
};

TENON_PROGRAM(OneIntegerIsAListOfSizes, 2) {
  auto f = run.compile([](const Tensor& x) {
    SymInt n = x.numel();
    Tensor flat = x.reshape(-1) + x.view(n) + zeros(6L) + full(6, 0.5);
    std::vector<Tensor> parts = flat.split(2);
    std::vector<Tensor> thirds = tensor_split(flat, 3);
    Tensor repeated = ones(1).expand(4) + ones({2}).tile(2).roll(1, 0);
    return std::vector<Tensor>{flat, parts[1], thirds[2], repeated, x.flip(0), x.sum(0)};
  });
  for (double value : {1.0, 2.0}) run.log(f(full({2, 3}, value)));
}

TENON_PROGRAM(MemberFunctionsTakePointersToTheirObjects, 6) {
  auto add = compile(&Layer::add, run.with_backend({}));
  auto subtract = compile(&Layer::subtract, run.with_backend({}));
  CompiledFunction<Tensor(Layer*, const Tensor&)> stored = add;
  Layer layer{full({2}, 0.5)};
  auto shared = std::make_shared<Layer>(layer);
  for (int i = 0; i < 3; ++i) {
    Tensor x = full({2}, i + 1.0);
    run.log(add(layer, x), add(&layer, x), add(shared, x), stored(&layer, x));
    run.log(subtract(layer, x), subtract(&layer, x));
    layer.weight = layer.weight * 2.0;
  }
}

TENON_PROGRAM(AGuardThatEndsAScopeIsTheProgramsOwn, 2) {
  static_assert(!detail::GivesComparable<void (*)()>);
  static_assert(detail::GivesComparable<int (*)()>);
  int n_ended = 0;
  auto f = run.compile([&](const Tensor& x) {
    end_a_scope(n_ended);
    return x + 1.0;
  });
  for (double value : {1.0, 2.0}) run.log(f(full({2}, value)));
  run.log(n_ended);
}

// Where it is not, the compiler's message names the struct and std::array.
TENON_PROGRAM(StructsOfArraysAreTaken, 2) {
  struct InC {
    Tensor weight;
    float taps[3];
    int n;
  };
  struct Taps {
    Tensor weight;
    std::array<float, 3> taps;
    Layer layer;
    std::vector<int> sizes;
    std::optional<std::pair<int, Layer>> more;
  };
  static_assert(detail::has_c_array<InC>(std::make_index_sequence<detail::count_fields<InC>()>()));
  static_assert(!detail::has_c_array<Taps>(std::make_index_sequence<5>()));
  static_assert(detail::count_fields<Taps>() == 5);
  auto f = run.compile([](const Tensor& x, const Taps& t) { return x * t.weight + t.taps[1]; });
  for (int i = 0; i < 2; ++i) run.log(f(ones(2), Taps{full(2, 2.0), {0, 0.5, 4}, {}, {}, {}}));
}

// `x[index] = v` would change a copy: it is const, and the assignment is refused.
TENON_PROGRAM(ElementsOfATensorOfIndicesAreReadAndPut, 2) {
  static_assert(std::is_same_v<decltype(ones(2)[ones(2)]), const Tensor>);
  static_assert(std::is_same_v<decltype(ones(2)[0]), Tensor>);
  auto f = run.compile([](const Tensor& x, const Tensor& index) {
    Tensor y = x.clone(), chosen = y[index];
    chosen = y[index];
    auto same = y[index];
    same += 1.0;
    y[0] = 4.0;
    y.index_put_({index}, chosen * 2.0);
    return std::vector<Tensor>{y, same};
  });
  for (double value : {1.0, 2.0}) run.log(f(full({4, 2}, value), tensor({1, 3})));
}

}  // namespace
}  // namespace tenon::programs
