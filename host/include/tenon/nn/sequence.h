// SPDX-License-Identifier: Apache-2.0
// Layers over sequences: GRU, LSTM, MultiheadAttention; with PyTorch's names, layouts and defaults.
//
// Inputs are [length, batch, features], or [batch, length, features] with batch_first, or [length,
// features] for one sequence. Packed sequences and projections (proj_size) are not there.
#pragma once

#include <tenon/nn/layers.h>

namespace tenon::nn {

struct RecurrentOptions {
  int64_t num_layers = 1;
  bool bias = true, batch_first = false;
  double dropout = 0;  ///< between layers, in training
  bool bidirectional = false;
};

/// What GRU and LSTM share: "weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0",
/// "weight_ih_l0_reverse" and so on.
class TENON_API Recurrent : public Module {
 public:
  void reset_parameters();
  void visit_members(MemberVisitor& visitor) override;

 protected:
  /// `gates` blocks of hidden_size rows in each weight.
  Recurrent(std::string_view type, int64_t gates, int64_t input_size, int64_t hidden_size,
            const RecurrentOptions& options);
  bool is_batched(const Tensor& x) const;
  /// x with a batch of 1 in place of none.
  Tensor batched(const Tensor& x) const;
  /// The state to begin with, given or zeros, batched.
  Tensor state_of(const Tensor& given, const Tensor& batched_x) const;
  int64_t batch_dim() const { return options_.batch_first ? 0 : 1; }
  std::vector<Tensor> weights() const;

  int64_t hidden_size_;
  RecurrentOptions options_;

 private:
  struct Named {
    std::string name;
    Parameter value;
  };
  std::string type_;
  std::vector<Named> parameters_;  // in the order of the ops gru and lstm
};

struct GRUOutput {
  Tensor output;  ///< of the last layer, at each step
  Tensor hidden;  ///< [layers * directions, batch, hidden], after the last step
};
class TENON_API GRU : public Recurrent {
 public:
  GRU(int64_t input_size, int64_t hidden_size, const RecurrentOptions& options = {})
      : Recurrent("GRU", 3, input_size, hidden_size, options) {}
  GRUOutput forward(const Tensor& x, const Tensor& hidden = {}) const;
  template <class... A>
  GRUOutput operator()(const A&... arguments) const {
    return forward(arguments...);
  }
  std::string_view type_name() const override { return "GRU"; }
};

struct LSTMOutput {
  Tensor output, hidden, cell;
};
class TENON_API LSTM : public Recurrent {
 public:
  LSTM(int64_t input_size, int64_t hidden_size, const RecurrentOptions& options = {})
      : Recurrent("LSTM", 4, input_size, hidden_size, options) {}
  LSTMOutput forward(const Tensor& x, const Tensor& hidden = {}, const Tensor& cell = {}) const;
  template <class... A>
  LSTMOutput operator()(const A&... arguments) const {
    return forward(arguments...);
  }
  std::string_view type_name() const override { return "LSTM"; }
};

struct MultiheadAttentionOptions {
  double dropout = 0;
  bool bias = true, batch_first = false;
};
struct AttentionMasks {
  /// [batch, source length]: true, or minus infinity, where a key is padding.
  Tensor key_padding_mask = {};
  /// [target, source] or [batch * heads, target, source]: true where attention is not allowed, or
  /// numbers that are added to the scores.
  Tensor attn_mask = {};
  bool is_causal = false;  ///< no attention to later positions
  bool need_weights = true;
  bool average_attn_weights = true;  ///< over the heads
};
struct AttentionOutput {
  Tensor output;
  Tensor weights;  ///< undefined unless need_weights
};
/// The attention of "Attention is all you need" (2017).
class TENON_API MultiheadAttention : public Module {
 public:
  MultiheadAttention(int64_t embed_dim, int64_t num_heads,
                     const MultiheadAttentionOptions& options = {});
  void reset_parameters();
  AttentionOutput forward(const Tensor& query, const Tensor& key, const Tensor& value,
                          const AttentionMasks& masks = {}) const;

  Parameter in_proj_weight;  ///< [3 * embed_dim, embed_dim]: query, key, value
  Parameter in_proj_bias;
  Linear out_proj;
  TENON_MODULE(MultiheadAttention, in_proj_weight, in_proj_bias, out_proj)

 private:
  struct Heads {
    Tensor query, key, value;  // [batch, heads, length, head size]
  };
  Heads project(const Tensor& query, const Tensor& key, const Tensor& value) const;
  Tensor split_heads(const Tensor& x) const;
  Tensor merged_mask(const AttentionMasks& masks, const Heads& heads) const;

  int64_t heads_;
  MultiheadAttentionOptions options_;
};

}  // namespace tenon::nn
