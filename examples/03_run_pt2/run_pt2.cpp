// A real model: what it takes and gives, batches of several sizes, two backends that must agree.
#include <tenon/tenon.h>

#include <cstdio>

#include "expect.h"

using tenon::Tensor;

// A batch of n random images that fits the model's only input.
Tensor images(const tenon::ValueSpec& input, int64_t n) {
  std::vector<int64_t> sizes;
  for (const tenon::SizeSpec& size : input.sizes) sizes.push_back(size.fixed.value_or(n));
  return tenon::randn(sizes).to(input.dtype);
}

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: example_run_pt2 MODEL.pt2\n");
    return 2;
  }
  try {
    auto eager = tenon::load(argv[1], {.backend = "eager"});
    auto model = tenon::load(argv[1], {.backend = "aot_eager"});
    for (const auto& spec : model.inputs()) std::printf("takes %s\n", to_text(spec).c_str());
    for (const auto& spec : model.outputs()) std::printf("gives %s\n", to_text(spec).c_str());
    for (const auto& name : model.parameter_names())
      std::printf("parameter %s: %s\n", name.c_str(), to_text(model.parameter(name)).c_str());

    for (int64_t n : {1, 7, 64}) {
      Tensor x = images(model.inputs()[0], n);
      Tensor scores = model(x);  // one result: a Tensor
      double apart = (scores - Tensor(eager(x))).abs().max().item<double>();
      expect(apart < 1e-5, "the backends agree");
      std::printf("%d images: classes %s\n", static_cast<int>(n),
                  to_text(scores.argmax(-1)).c_str());
    }
    expect(model.compiles() == 1, "other batch sizes need no compile");
  } catch (const tenon::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
