// Other ways to write a call: sizes as one integer, and objects of member functions by pointer.
#include "program.h"

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
