// Attention on a device, by batched products and a softmax, against the CPU in f64.
#include "gpu_checks.h"

namespace tenon {
namespace {

class GpuAttention : public Gpu {};

double tolerance_of(Dtype dtype) {
  return dtype == Dtype::f64 ? 1e-11 : dtype == Dtype::f32 ? 2e-5 : 2e-2;
}

/// Eagerly and compiled, for inference.
void expect_attention(const std::string& what, Dtype dtype, std::vector<Tensor> inputs,
                      const Function& f) {
  std::string name = what + " in " + to_text(dtype);
  SCOPED_TRACE(name);
  std::vector<Tensor> there, exact;
  for (const Tensor& t : inputs) {
    Tensor rounded = t.dtype() == Dtype::bool_ ? t : t.to(dtype);
    there.push_back(on_gpu(rounded));
    exact.push_back(t.dtype() == Dtype::bool_ ? t : rounded.to(Dtype::f64));
  }
  NoGradGuard guard;
  Tensor expected = f(exact).to(dtype);
  expect_close(f(there), expected, name + ", eager", tolerance_of(dtype));
  auto compiled = compile([f](const std::vector<Tensor>& in) { return f(in); },
                          {.options = {{"verify", "true"}}});
  expect_close(compiled(there), expected, name + ", compiled", tolerance_of(dtype));
}

TEST_F(GpuAttention, OfAllDtypesAndMasks) {
  Tensor q = randn({2, 3, 17, 8}), k = randn({2, 3, 21, 8}), v = randn({2, 3, 21, 12});
  Tensor seen = randn({17, 21}) > 0.0;
  Tensor some = (randn({2, 1, 17, 21}) > -0.5).logical_and(arange(17).view({17, 1}) != 4);
  for (Dtype dtype : {Dtype::f32, Dtype::f64, Dtype::bf16, Dtype::f16}) {
    expect_attention("plain", dtype, {q, k, v},
                     [](auto& in) { return scaled_dot_product_attention(in[0], in[1], in[2]); });
    expect_attention("causal", dtype, {q, q + 1, v.narrow(2, 0, 17)}, [](auto& in) {
      return scaled_dot_product_attention(in[0], in[1], in[2], {}, 0, true);
    });
    expect_attention("a scale of its own", dtype, {q, k, v}, [](auto& in) {
      return scaled_dot_product_attention(in[0], in[1], in[2], {}, 0, false, 0.3);
    });
    expect_attention("a mask", dtype, {q, k, v, seen}, [](auto& in) {
      return scaled_dot_product_attention(in[0], in[1], in[2], in[3]);
    });
    expect_attention("a row of no key", dtype, {q, k, v, some}, [](auto& in) {
      return scaled_dot_product_attention(in[0], in[1], in[2], in[3]);
    });
    expect_attention("numbers that are added", dtype, {q, k, v, randn({3, 17, 21})}, [](auto& in) {
      return scaled_dot_product_attention(in[0], in[1], in[2], in[3]);
    });
  }
}

// Heads as a layer gives them: neighbours in memory, behind positions.
TEST_F(GpuAttention, OfHeadsOfALayer) {
  for (int64_t batch : {1, 3})
    for (Dtype dtype : {Dtype::f32, Dtype::bf16}) {
      Tensor x = randn({batch, 14, 24}), w = randn({72, 24}) * 0.2, b = randn({72}) * 0.2;
      expect_attention("a layer of " + std::to_string(batch), dtype, {x, w, b}, [=](auto& in) {
        Tensor all = linear(in[0], in[1], in[2]).view({batch, 14, 3, 4, 6});
        auto part = [&](int64_t which) { return all.select(2, which).transpose(1, 2); };
        Tensor out = scaled_dot_product_attention(part(0), part(1), part(2));
        return out.transpose(1, 2).reshape({batch, 14, 24});
      });
    }
}

TEST_F(GpuAttention, Gradients) {
  for (Dtype dtype : {Dtype::f32, Dtype::bf16})
    for (bool is_causal : {false, true}) {
      std::vector<Tensor> inputs{randn({2, 3, 17, 8}), randn({2, 3, 17, 8}), randn({2, 3, 17, 8})};
      auto body = [is_causal](const std::vector<Tensor>& l) {
        return scaled_dot_product_attention(l[0], l[1], l[2], {}, 0, is_causal).pow(2).sum();
      };
      auto gradients = [&](Device device, Dtype in, bool compiles) {
        std::vector<Tensor> leaves, out;
        for (const Tensor& t : inputs)
          leaves.push_back(t.to(dtype).to(device, in).requires_grad_());
        auto compiled = compile(body);
        (compiles ? compiled(leaves) : body(leaves)).backward();
        for (const Tensor& l : leaves) out.push_back(l.grad());
        return out;
      };
      auto here = gradients(kCPU, Dtype::f64, false);
      for (bool compiles : {false, true}) {
        auto there = gradients(gpu, dtype, compiles);
        for (size_t i = 0; i < there.size(); ++i)
          expect_close(there[i], here[i].to(dtype), "gradient " + std::to_string(i),
                       3 * tolerance_of(dtype));
      }
    }
}

}  // namespace
}  // namespace tenon
