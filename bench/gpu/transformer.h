// The transformers of the benchmarks: layers of 768 channels and 12 heads, over 8 x 128 positions.
#pragma once

#include <tenon/tenon.h>

namespace bench {

namespace nn = tenon::nn;
using tenon::Tensor;

inline constexpr int64_t heads = 12, width = 768, batch = 8, positions = 128;

/// A layer of a transformer, its norms behind the sums.
struct Layer : nn::Module {
  nn::Linear in{width, 3 * width}, out{width, width}, wide{width, 4 * width},
      narrow{4 * width, width};
  nn::LayerNorm first{{width}}, second{{width}};
  TENON_MODULE(Layer, in, out, wide, narrow, first, second)
  Tensor forward(const Tensor& x) {
    Tensor all = in(x).view({batch, positions, 3, heads, width / heads});
    auto part = [&](int64_t which) { return all.select(2, which).transpose(1, 2); };
    Tensor attended = scaled_dot_product_attention(part(0), part(1), part(2));
    Tensor h = first(x + out(attended.transpose(1, 2).reshape({batch, positions, width})));
    return second(h + narrow(gelu(wide(h), "tanh")));
  }
};

/// Two of them.
struct Transformer : nn::Module {
  nn::Sequential layers{Layer(), Layer()};
  TENON_MODULE(Transformer, layers)
  Tensor forward(const Tensor& x) { return layers(x); }
};

/// Twelve of them: what BERT is made of.
struct Bert : nn::Module {
  nn::Sequential layers{Layer(), Layer(), Layer(), Layer(), Layer(), Layer(),
                        Layer(), Layer(), Layer(), Layer(), Layer(), Layer()};
  TENON_MODULE(Bert, layers)
  Tensor forward(const Tensor& x) { return layers(x); }
};

/// A training step over `x`, which `opt` ends; the loss.
inline auto step_of(Transformer& net, tenon::optim::AdamW& opt, const Tensor& x) {
  return [&net, &opt, x] {
    opt.zero_grad();
    Tensor loss = net(x).square().mean();
    loss.backward();
    opt.step();
    return loss.detach();
  };
}

}  // namespace bench
