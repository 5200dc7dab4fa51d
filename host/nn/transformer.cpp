// Layers of transformers.
#include <tenon/nn/transformer.h>

namespace tenon::nn {
namespace {

Tensor activated(const TransformerOptions& options, const Tensor& x) {
  return options.activation != nullptr ? options.activation(x) : relu(x);
}

MultiheadAttentionOptions attention_options(const TransformerOptions& o) {
  return {.dropout = o.dropout, .bias = o.bias, .batch_first = o.batch_first};
}

LayerNorm norm_of(int64_t d_model, const TransformerOptions& o) {
  return LayerNorm(d_model, {.eps = o.layer_norm_eps, .bias = o.bias});
}

// A part with its shortcut: the sum is normalised, or what enters the part is.
template <class Part>
Tensor with_shortcut(const Tensor& x, const LayerNorm& norm, bool norm_first, const Part& part) {
  return norm_first ? x + part(norm(x)) : norm(x + part(x));
}

// Replaces the handles of a copy by values of its own.
class OwnValues : public MemberVisitor {
 public:
  void parameter(const std::string&, Parameter& p) override {
    bool learns = p.requires_grad();
    p = Parameter(p.detach().clone());
    p.requires_grad_(learns);
  }
  void buffer(const std::string&, Buffer& b) override { b = Buffer(b.detach().clone()); }
  void module(const std::string&, Module& m) override { m.visit_members(*this); }
};

template <class Layer>
std::vector<Layer> copies_of(std::string_view stack, const Layer& layer, int64_t n) {
  require(n > 0, "{}: expected num_layers of 1 or more, found {}", stack, n);
  std::vector<Layer> out(static_cast<size_t>(n), layer);
  for (Layer& copy : out) {
    OwnValues visitor;
    copy.visit_members(visitor);
  }
  return out;
}

}  // namespace

TransformerEncoderLayer::TransformerEncoderLayer(int64_t d_model, int64_t nhead,
                                                 const TransformerOptions& options)
    : self_attn(d_model, nhead, attention_options(options)),
      linear1(d_model, options.dim_feedforward, {options.bias}),
      dropout(options.dropout),
      linear2(options.dim_feedforward, d_model, {options.bias}),
      norm1(norm_of(d_model, options)),
      norm2(norm_of(d_model, options)),
      dropout1(options.dropout),
      dropout2(options.dropout),
      options_(options) {}

Tensor TransformerEncoderLayer::forward(const Tensor& src, const EncoderMasks& masks) const {
  Tensor x = with_shortcut(src, norm1, options_.norm_first, [&](const Tensor& in) {
    return dropout1(self_attn(in, in, in,
                              AttentionMasks{.key_padding_mask = masks.src_key_padding_mask,
                                             .attn_mask = masks.mask,
                                             .is_causal = masks.is_causal,
                                             .need_weights = false})
                        .output);
  });
  return with_shortcut(x, norm2, options_.norm_first, [&](const Tensor& in) {
    return dropout2(linear2(dropout(activated(options_, linear1(in)))));
  });
}

TransformerEncoder::TransformerEncoder(const TransformerEncoderLayer& layer, int64_t num_layers,
                                       std::optional<LayerNorm> norm)
    : layers(copies_of("TransformerEncoder", layer, num_layers)), norm(std::move(norm)) {}

Tensor TransformerEncoder::forward(const Tensor& src, const EncoderMasks& masks) const {
  Tensor x = src;
  for (const TransformerEncoderLayer& layer : layers) x = layer(x, masks);
  return norm ? (*norm)(x) : x;
}

TransformerDecoderLayer::TransformerDecoderLayer(int64_t d_model, int64_t nhead,
                                                 const TransformerOptions& options)
    : self_attn(d_model, nhead, attention_options(options)),
      multihead_attn(d_model, nhead, attention_options(options)),
      linear1(d_model, options.dim_feedforward, {options.bias}),
      dropout(options.dropout),
      linear2(options.dim_feedforward, d_model, {options.bias}),
      norm1(norm_of(d_model, options)),
      norm2(norm_of(d_model, options)),
      norm3(norm_of(d_model, options)),
      dropout1(options.dropout),
      dropout2(options.dropout),
      dropout3(options.dropout),
      options_(options) {}

Tensor TransformerDecoderLayer::forward(const Tensor& tgt, const Tensor& memory,
                                        const DecoderMasks& masks) const {
  Tensor x = with_shortcut(tgt, norm1, options_.norm_first, [&](const Tensor& in) {
    return dropout1(self_attn(in, in, in,
                              AttentionMasks{.key_padding_mask = masks.tgt_key_padding_mask,
                                             .attn_mask = masks.tgt_mask,
                                             .is_causal = masks.tgt_is_causal,
                                             .need_weights = false})
                        .output);
  });
  x = with_shortcut(x, norm2, options_.norm_first, [&](const Tensor& in) {
    return dropout2(multihead_attn(in, memory, memory,
                                   AttentionMasks{.key_padding_mask = masks.memory_key_padding_mask,
                                                  .attn_mask = masks.memory_mask,
                                                  .is_causal = masks.memory_is_causal,
                                                  .need_weights = false})
                        .output);
  });
  return with_shortcut(x, norm3, options_.norm_first, [&](const Tensor& in) {
    return dropout3(linear2(dropout(activated(options_, linear1(in)))));
  });
}

TransformerDecoder::TransformerDecoder(const TransformerDecoderLayer& layer, int64_t num_layers,
                                       std::optional<LayerNorm> norm)
    : layers(copies_of("TransformerDecoder", layer, num_layers)), norm(std::move(norm)) {}

Tensor TransformerDecoder::forward(const Tensor& tgt, const Tensor& memory,
                                   const DecoderMasks& masks) const {
  Tensor x = tgt;
  for (const TransformerDecoderLayer& layer : layers) x = layer(x, memory, masks);
  return norm ? (*norm)(x) : x;
}

}  // namespace tenon::nn
