// SPDX-License-Identifier: Apache-2.0
// The layers of "Attention is all you need" (2017), with PyTorch's names, layouts and defaults.
//
// Inputs are [length, batch, features], or [batch, length, features] with batch_first.
#pragma once

#include <tenon/nn/sequence.h>
#include <tenon/nn/stateless.h>

#include <functional>

namespace tenon::nn {

struct TransformerOptions {
  int64_t dim_feedforward = 2048;
  double dropout = 0.1;
  Tensor (*activation)(const Tensor& x) = nullptr;  ///< unset: relu
  double layer_norm_eps = 1e-5;
  bool batch_first = false;
  bool norm_first = false;  ///< normalise what enters a part, not what leaves it
  bool bias = true;
};

/// Masks as those of AttentionMasks.
struct EncoderMasks {
  Tensor mask = {}, src_key_padding_mask = {};
  bool is_causal = false;
};
class TENON_API TransformerEncoderLayer : public Module {
 public:
  TransformerEncoderLayer(int64_t d_model, int64_t nhead, const TransformerOptions& options = {});
  Tensor forward(const Tensor& src, const EncoderMasks& masks = {}) const;

  MultiheadAttention self_attn;
  Linear linear1;
  Dropout dropout;
  Linear linear2;
  LayerNorm norm1, norm2;
  Dropout dropout1, dropout2;
  TENON_MODULE(TransformerEncoderLayer, self_attn, linear1, dropout, linear2, norm1, norm2,
               dropout1, dropout2)

 private:
  TransformerOptions options_;
};

/// `num_layers` layers, each with values of its own that begin as those of `layer`.
class TENON_API TransformerEncoder : public Module {
 public:
  TransformerEncoder(const TransformerEncoderLayer& layer, int64_t num_layers,
                     std::optional<LayerNorm> norm = {});
  Tensor forward(const Tensor& src, const EncoderMasks& masks = {}) const;

  std::vector<TransformerEncoderLayer> layers;
  std::optional<LayerNorm> norm;
  TENON_MODULE(TransformerEncoder, layers, norm)
};

struct DecoderMasks {
  Tensor tgt_mask = {}, memory_mask = {}, tgt_key_padding_mask = {}, memory_key_padding_mask = {};
  bool tgt_is_causal = false, memory_is_causal = false;
};
class TENON_API TransformerDecoderLayer : public Module {
 public:
  TransformerDecoderLayer(int64_t d_model, int64_t nhead, const TransformerOptions& options = {});
  Tensor forward(const Tensor& tgt, const Tensor& memory, const DecoderMasks& masks = {}) const;

  MultiheadAttention self_attn, multihead_attn;
  Linear linear1;
  Dropout dropout;
  Linear linear2;
  LayerNorm norm1, norm2, norm3;
  Dropout dropout1, dropout2, dropout3;
  TENON_MODULE(TransformerDecoderLayer, self_attn, multihead_attn, linear1, dropout, linear2, norm1,
               norm2, norm3, dropout1, dropout2, dropout3)

 private:
  TransformerOptions options_;
};

class TENON_API TransformerDecoder : public Module {
 public:
  TransformerDecoder(const TransformerDecoderLayer& layer, int64_t num_layers,
                     std::optional<LayerNorm> norm = {});
  Tensor forward(const Tensor& tgt, const Tensor& memory, const DecoderMasks& masks = {}) const;

  std::vector<TransformerDecoderLayer> layers;
  std::optional<LayerNorm> norm;
  TENON_MODULE(TransformerDecoder, layers, norm)
};

}  // namespace tenon::nn
