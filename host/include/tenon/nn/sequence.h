// SPDX-License-Identifier: Apache-2.0
// Layers over sequences: RNN, GRU, LSTM, their cells, MultiheadAttention; with PyTorch's names, layouts and defaults.
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

/// What RNN, GRU and LSTM share: "weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0",
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
  std::vector<Named> parameters_;  // in the order of the ops gru, lstm and rnn_tanh
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

enum class RNNNonlinearity { tanh, relu };
struct RNNOutput {
  Tensor output;  ///< of the last layer, at each step
  Tensor hidden;  ///< [layers * directions, batch, hidden], after the last step
};
/// Elman's network.
class TENON_API RNN : public Recurrent {
 public:
  RNN(int64_t input_size, int64_t hidden_size, const RecurrentOptions& options = {},
      RNNNonlinearity nonlinearity = RNNNonlinearity::tanh)
      : Recurrent("RNN", 1, input_size, hidden_size, options), nonlinearity_(nonlinearity) {}
  RNNOutput forward(const Tensor& x, const Tensor& hidden = {}) const;
  template <class... A>
  RNNOutput operator()(const A&... arguments) const {
    return forward(arguments...);
  }
  std::string_view type_name() const override { return "RNN"; }

 private:
  RNNNonlinearity nonlinearity_;
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

/// What the cells share: one step of one layer. Inputs are [batch, features], or [features].
class TENON_API RecurrentCell : public Module {
 public:
  void reset_parameters();

  Parameter weight_ih;  ///< [gates * hidden, input]
  Parameter weight_hh;  ///< [gates * hidden, hidden]
  Parameter bias_ih, bias_hh;

 protected:
  RecurrentCell(std::string_view type, int64_t gates, int64_t input_size, int64_t hidden_size,
                bool bias);
  Tensor state_of(const Tensor& given, const Tensor& x) const;
  int64_t hidden_size_;
};
class TENON_API RNNCell : public RecurrentCell {
 public:
  RNNCell(int64_t input_size, int64_t hidden_size, bool bias = true,
          RNNNonlinearity nonlinearity = RNNNonlinearity::tanh)
      : RecurrentCell("RNNCell", 1, input_size, hidden_size, bias), nonlinearity_(nonlinearity) {}
  /// The next hidden state; the one given is zeros unless defined.
  Tensor forward(const Tensor& x, const Tensor& hidden = {}) const;
  TENON_MODULE(RNNCell, weight_ih, weight_hh, bias_ih, bias_hh)

 private:
  RNNNonlinearity nonlinearity_;
};
class TENON_API GRUCell : public RecurrentCell {
 public:
  GRUCell(int64_t input_size, int64_t hidden_size, bool bias = true)
      : RecurrentCell("GRUCell", 3, input_size, hidden_size, bias) {}
  Tensor forward(const Tensor& x, const Tensor& hidden = {}) const;
  TENON_MODULE(GRUCell, weight_ih, weight_hh, bias_ih, bias_hh)
};
struct LSTMCellOutput {
  Tensor hidden, cell;
};
class TENON_API LSTMCell : public RecurrentCell {
 public:
  LSTMCell(int64_t input_size, int64_t hidden_size, bool bias = true)
      : RecurrentCell("LSTMCell", 4, input_size, hidden_size, bias) {}
  LSTMCellOutput forward(const Tensor& x, const Tensor& hidden = {}, const Tensor& cell = {}) const;
  TENON_MODULE(LSTMCell, weight_ih, weight_hh, bias_ih, bias_hh)
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
