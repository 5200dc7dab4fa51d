// An op of the program's own, in eager code and through two backends.
#include <tenon/tenon.h>

#include <cstdio>

#include "expect.h"

using tenon::Tensor;

TENON_LIBRARY(example, lib) {
  // Per element: a formula is all that is needed.
  lib.op("swiglu(Tensor x, Tensor gate, *, float beta=1.0) -> Tensor")
      .formula<3>([](auto x, auto gate, auto beta) { return x * gate * sigmoid(beta * gate); })
      .pt2_compliant();
  // Anything else: what the result looks like, and how it is computed.
  lib.op("row_sums(Tensor x) -> Tensor")
      .meta([](const Tensor& x) { return tenon::empty({x.size(0)}, x.dtype()); })
      .kernel([](Tensor& out, const Tensor& x) {
        int64_t columns = x.size(1).guard_int();
        for (int64_t i = 0; i < x.size(0).guard_int(); ++i) {
          float sum = 0;
          for (int64_t j = 0; j < columns; ++j) sum += x.data_ptr<float>()[i * columns + j];
          out.data_ptr<float>()[i] = sum;
        }
      });
}

const tenon::Op<Tensor(const Tensor&, const Tensor&)> swiglu{"example::swiglu"};
const tenon::Op<Tensor(const Tensor&)> row_sums{"example::row_sums"};

int main() {
  auto layer = [](const Tensor& x, const Tensor& gate) { return row_sums(swiglu(x, gate)) * 2; };
  Tensor x = tenon::randn({3, 4}), gate = tenon::randn({3, 4});
  std::vector<float> eager = layer(x, gate).to_vector<float>();
  for (const char* backend : {"eager", "aot_eager"}) {
    auto f = tenon::compile(layer, {.backend = backend, .dynamic = true});
    std::vector<float> compiled = f(x, gate).to_vector<float>();
    expect(compiled == eager, "compiled code gives what eager code gives");
    f(tenon::randn({5, 4}), tenon::randn({5, 4}));
    expect(f.stats().compiles == 1, "another size needs no compile");
    std::printf("%s: %.4f %.4f %.4f\n", backend, compiled[0], compiled[1], compiled[2]);
  }
}
