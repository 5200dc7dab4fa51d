// Layers over sequences.
#include <tenon/nn/init.h>
#include <tenon/nn/sequence.h>
#include <tenon/ops/create.h>
#include <tenon/ops/linalg.h>
#include <tenon/ops/nn.h>
#include <tenon/ops/reduce.h>

#include <cmath>
#include <limits>

namespace tenon::nn {

Recurrent::Recurrent(std::string_view type, int64_t gates, int64_t input_size, int64_t hidden_size,
                     const RecurrentOptions& options)
    : hidden_size_(hidden_size), options_(options), type_(type) {
  require(input_size > 0 && hidden_size > 0 && options.num_layers > 0,
          "{}: expected input_size, hidden_size and num_layers of 1 or more, found {}, {}, {}",
          type, input_size, hidden_size, options.num_layers);
  require(options.dropout >= 0 && options.dropout <= 1,
          "{}: expected a dropout probability in [0, 1], found {}", type, options.dropout);
  int64_t directions = options.bidirectional ? 2 : 1, rows = gates * hidden_size;
  for (int64_t layer = 0; layer < options.num_layers; ++layer) {
    int64_t width = layer == 0 ? input_size : hidden_size * directions;
    for (std::string suffix : {"", "_reverse"}) {
      if (!suffix.empty() && !options.bidirectional) continue;
      suffix.insert(0, "_l" + std::to_string(layer));
      parameters_.push_back({"weight_ih" + suffix, Parameter(empty({rows, width}))});
      parameters_.push_back({"weight_hh" + suffix, Parameter(empty({rows, hidden_size}))});
      if (!options.bias) continue;
      parameters_.push_back({"bias_ih" + suffix, Parameter(empty({rows}))});
      parameters_.push_back({"bias_hh" + suffix, Parameter(empty({rows}))});
    }
  }
  reset_parameters();
}

void Recurrent::reset_parameters() {
  double bound = 1 / std::sqrt(static_cast<double>(hidden_size_));
  for (Named& p : parameters_) init::uniform_(p.value, -bound, bound);
}

void Recurrent::visit_members(MemberVisitor& visitor) {
  for (Named& p : parameters_) visitor.parameter(p.name, p.value);
}

std::vector<Tensor> Recurrent::weights() const {
  std::vector<Tensor> out;
  for (const Named& p : parameters_) out.push_back(p.value);
  return out;
}

bool Recurrent::is_batched(const Tensor& x) const {
  require(x.dim() == 2 || x.dim() == 3, "{}: expected two or three dimensions, found {}", type_, x);
  return x.dim() == 3;
}

Tensor Recurrent::batched(const Tensor& x) const {
  return is_batched(x) ? x : x.unsqueeze(batch_dim());
}

Tensor Recurrent::state_of(const Tensor& given, const Tensor& batched_x) const {
  if (given.defined()) return given.dim() == 2 ? given.unsqueeze(1) : given;
  int64_t rows = options_.num_layers * (options_.bidirectional ? 2 : 1);
  return zeros({rows, batched_x.size(batch_dim()), hidden_size_}, batched_x.dtype(), {},
               batched_x.device());
}

GRUOutput GRU::forward(const Tensor& x, const Tensor& hidden) const {
  Tensor in = batched(x);
  auto [output, last] =
      gru(in, state_of(hidden, in), weights(), options_.bias, options_.num_layers, options_.dropout,
          is_training(), options_.bidirectional, options_.batch_first);
  if (is_batched(x)) return {output, last};
  return {output.squeeze(batch_dim()), last.squeeze(1)};
}

RNNOutput RNN::forward(const Tensor& x, const Tensor& hidden) const {
  Tensor in = batched(x);
  auto op = nonlinearity_ == RNNNonlinearity::tanh ? &rnn_tanh : &rnn_relu;
  auto [output, last] =
      op(in, state_of(hidden, in), weights(), options_.bias, options_.num_layers, options_.dropout,
         is_training(), options_.bidirectional, options_.batch_first);
  if (is_batched(x)) return {output, last};
  return {output.squeeze(batch_dim()), last.squeeze(1)};
}

LSTMOutput LSTM::forward(const Tensor& x, const Tensor& hidden, const Tensor& cell) const {
  Tensor in = batched(x);
  std::array<Tensor, 2> state{state_of(hidden, in), state_of(cell, in)};
  auto [output, last, last_cell] =
      lstm(in, state, weights(), options_.bias, options_.num_layers, options_.dropout,
           is_training(), options_.bidirectional, options_.batch_first);
  if (is_batched(x)) return {output, last, last_cell};
  return {output.squeeze(batch_dim()), last.squeeze(1), last_cell.squeeze(1)};
}

RecurrentCell::RecurrentCell(std::string_view type, int64_t gates, int64_t input_size,
                             int64_t hidden_size, bool bias)
    : hidden_size_(hidden_size) {
  require(input_size > 0 && hidden_size > 0,
          "{}: expected input_size and hidden_size of 1 or more, found {} and {}", type, input_size,
          hidden_size);
  weight_ih = Parameter(empty({gates * hidden_size, input_size}));
  weight_hh = Parameter(empty({gates * hidden_size, hidden_size}));
  if (bias) {
    bias_ih = Parameter(empty({gates * hidden_size}));
    bias_hh = Parameter(empty({gates * hidden_size}));
  }
  reset_parameters();
}

void RecurrentCell::reset_parameters() {
  double bound = 1 / std::sqrt(static_cast<double>(hidden_size_));
  for (const Tensor& p : {weight_ih, weight_hh, bias_ih, bias_hh})
    if (p.defined()) init::uniform_(p, -bound, bound);
}

Tensor RecurrentCell::state_of(const Tensor& given, const Tensor& x) const {
  require(x.dim() == 1 || x.dim() == 2, "{}: expected one or two dimensions, found {}", type_name(),
          x);
  if (given.defined()) return given.dim() == 1 ? given.unsqueeze(0) : given;
  return zeros({x.dim() == 2 ? x.size(0) : SymInt(1), hidden_size_}, x.dtype(), {}, x.device());
}

Tensor RNNCell::forward(const Tensor& x, const Tensor& hidden) const {
  auto op = nonlinearity_ == RNNNonlinearity::tanh ? &rnn_tanh_cell : &rnn_relu_cell;
  bool has_batch = x.dim() == 2;
  Tensor next = op(has_batch ? x : x.unsqueeze(0), state_of(hidden, x), weight_ih, weight_hh,
                   bias_ih, bias_hh);
  return has_batch ? next : next.squeeze(0);
}

Tensor GRUCell::forward(const Tensor& x, const Tensor& hidden) const {
  bool has_batch = x.dim() == 2;
  Tensor next = gru_cell(has_batch ? x : x.unsqueeze(0), state_of(hidden, x), weight_ih, weight_hh,
                         bias_ih, bias_hh);
  return has_batch ? next : next.squeeze(0);
}

LSTMCellOutput LSTMCell::forward(const Tensor& x, const Tensor& hidden, const Tensor& cell) const {
  bool has_batch = x.dim() == 2;
  std::array<Tensor, 2> state{state_of(hidden, x), state_of(cell, x)};
  auto [next, next_cell] =
      lstm_cell(has_batch ? x : x.unsqueeze(0), state, weight_ih, weight_hh, bias_ih, bias_hh);
  if (has_batch) return {next, next_cell};
  return {next.squeeze(0), next_cell.squeeze(0)};
}

MultiheadAttention::MultiheadAttention(int64_t embed_dim, int64_t num_heads,
                                       const MultiheadAttentionOptions& options)
    : out_proj(embed_dim, embed_dim, {options.bias}), heads_(num_heads), options_(options) {
  require(num_heads > 0 && embed_dim > 0 && embed_dim % num_heads == 0,
          "MultiheadAttention: expected embed_dim to be a multiple of num_heads = {}, found {}",
          num_heads, embed_dim);
  in_proj_weight = Parameter(empty({3 * embed_dim, embed_dim}));
  if (options.bias) in_proj_bias = Parameter(empty({3 * embed_dim}));
  reset_parameters();
}

void MultiheadAttention::reset_parameters() {
  init::xavier_uniform_(in_proj_weight);
  out_proj.reset_parameters();
  if (!in_proj_bias.defined()) return;
  init::zeros_(in_proj_bias);
  init::zeros_(out_proj.bias);
}

Tensor MultiheadAttention::split_heads(const Tensor& x) const {
  return x.reshape({x.size(0), x.size(1), heads_, -1}).transpose(1, 2);
}

// One product where query, key and value are the same tensor.
MultiheadAttention::Heads MultiheadAttention::project(const Tensor& query, const Tensor& key,
                                                      const Tensor& value) const {
  if (query.is_same(key) && key.is_same(value)) {
    auto parts = linear(query, in_proj_weight, in_proj_bias).chunk(3, -1);
    return {split_heads(parts[0]), split_heads(parts[1]), split_heads(parts[2])};
  }
  auto weights = in_proj_weight.chunk(3, 0);
  std::vector<Tensor> biases(3);
  if (in_proj_bias.defined()) biases = in_proj_bias.chunk(3, 0);
  return {split_heads(linear(query, weights[0], biases[0])),
          split_heads(linear(key, weights[1], biases[1])),
          split_heads(linear(value, weights[2], biases[2]))};
}

// All masks as one tensor that is added to the scores, undefined where there is none.
Tensor MultiheadAttention::merged_mask(const AttentionMasks& masks, const Heads& heads) const {
  const Tensor& q = heads.query;
  SymInt batch = q.size(0), target = q.size(2), source = heads.key.size(2);
  auto additive = [&](const Tensor& mask) {
    if (mask.dtype() != Dtype::bool_) return mask.to(q.dtype());
    return zeros_like(mask, q.dtype()).masked_fill(mask, -std::numeric_limits<double>::infinity());
  };
  Tensor sum;
  auto add = [&](const Tensor& mask) { sum = sum.defined() ? sum + mask : mask; };
  if (masks.key_padding_mask.defined())
    add(additive(masks.key_padding_mask).reshape({-1, 1, 1, source}));
  if (masks.attn_mask.defined()) {
    Tensor mask = additive(masks.attn_mask);
    add(mask.dim() == 3 ? mask.reshape({batch, heads_, target, source}) : mask);
  }
  if (masks.is_causal) add(additive(ones({target, source}, Dtype::bool_, {}, q.device()).triu(1)));
  return sum;
}

AttentionOutput MultiheadAttention::forward(const Tensor& query, const Tensor& key,
                                            const Tensor& value,
                                            const AttentionMasks& masks) const {
  require(query.dim() == 2 || query.dim() == 3,
          "MultiheadAttention: expected two or three dimensions, found {}", query);
  if (query.dim() == 2) {
    int64_t batch = options_.batch_first ? 0 : 1;
    Tensor q = query.unsqueeze(batch);
    Tensor k = key.is_same(query) ? q : key.unsqueeze(batch);
    Tensor v = value.is_same(key) ? k : value.unsqueeze(batch);
    AttentionOutput out = forward(q, k, v, masks);
    if (out.weights.defined()) out.weights = out.weights.squeeze(0);
    return {out.output.squeeze(batch), out.weights};
  }
  auto batch_first = [&](const Tensor& t) { return options_.batch_first ? t : t.transpose(0, 1); };
  Tensor q = batch_first(query);
  Tensor k = key.is_same(query) ? q : batch_first(key);
  Heads heads = project(q, k, value.is_same(key) ? k : batch_first(value));
  Tensor mask = merged_mask(masks, heads), weights, mixed;
  double dropout_p = is_training() ? options_.dropout : 0;
  if (masks.need_weights) {
    double scale = 1 / std::sqrt(static_cast<double>(heads.query.size(3).guard_int()));
    Tensor scores = (heads.query * scale).matmul(heads.key.transpose(-2, -1));
    weights = softmax(mask.defined() ? scores + mask : scores, -1);
    weights = dropout(weights, dropout_p, dropout_p > 0);
    mixed = weights.matmul(heads.value);
    if (masks.average_attn_weights) weights = weights.mean(1);
  } else {
    mixed = scaled_dot_product_attention(heads.query, heads.key, heads.value, mask, dropout_p);
  }
  Tensor joined = out_proj(mixed.transpose(1, 2).flatten(2));
  return {options_.batch_first ? joined : joined.transpose(0, 1), weights};
}

}  // namespace tenon::nn
