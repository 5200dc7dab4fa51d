// Recurrent layers: lstm, gru, rnn_tanh, rnn_relu and their cells.
//
// A layer is composite: one linear map of all inputs, then for each step a linear map of the state
// and the gates. Outside of training lstm and gru run through kernels of their own (recurrent.h).
#include "ops/nn/recurrent.h"
#include "ops/op.h"
#include "ops/shape_check.h"

#include <tenon/ops/create.h>
#include <tenon/ops/linalg.h>
#include <tenon/ops/pointwise.h>
#include <tenon/ops/view.h>

#include <algorithm>

namespace tenon::ops {

namespace {

enum class Cell { lstm, gru, tanh, relu };

struct StepState {
  Tensor hidden, cell;
};

// ---- one step; `gates` is what the input gives

std::vector<Tensor> split_gates(const Tensor& gates, size_t n) {
  std::vector<Tensor> parts = chunk(gates, static_cast<int64_t>(n), -1);
  require(
      parts.size() == n,
      "a recurrent cell has {} gates: expected weights with {} rows for each hidden unit, found "
      "{} rows",
      n, n, gates.size(-1));
  return parts;
}

StepState lstm_step(const Tensor& gates, const StepState& s, const CellWeights& w) {
  std::vector<Tensor> g = split_gates(add(gates, linear(s.hidden, w.hidden, w.hidden_bias)), 4);
  Tensor cell = add(mul(sigmoid(g[1]), s.cell), mul(sigmoid(g[0]), tanh(g[2])));
  Tensor hidden = mul(sigmoid(g[3]), tanh(cell));
  return {w.projection.defined() ? linear(hidden, w.projection) : hidden, cell};
}

StepState gru_step(const Tensor& gates, const StepState& s, const CellWeights& w) {
  std::vector<Tensor> x = split_gates(gates, 3),
                      h = split_gates(linear(s.hidden, w.hidden, w.hidden_bias), 3);
  Tensor reset = sigmoid(add(h[0], x[0])), update = sigmoid(add(h[1], x[1]));
  Tensor fresh = tanh(add(x[2], mul(h[2], reset)));
  return {add(mul(sub(s.hidden, fresh), update), fresh), {}};
}

StepState step_of(Cell kind, const Tensor& gates, const StepState& s, const CellWeights& w) {
  switch (kind) {
    case Cell::lstm:
      return lstm_step(gates, s, w);
    case Cell::gru:
      return gru_step(gates, s, w);
    default:
      break;
  }
  Tensor sum = add(gates, linear(s.hidden, w.hidden, w.hidden_bias));
  return {kind == Cell::tanh ? tanh(sum) : relu(sum), {}};
}

// ---- layers

int64_t gates_of(Cell kind) { return kind == Cell::lstm ? 4 : kind == Cell::gru ? 3 : 1; }

struct LayerCall {
  Cell kind;
  const Tensor& input;
  const Tensor& hidden;
  Tensor cell;
  TensorList params;
  bool has_biases;
  int64_t layers;
  double dropout_p;
  bool train, bidirectional, batch_first;

  int64_t directions() const { return bidirectional ? 2 : 1; }
  /// Once the states are checked.
  bool has_projection() const {
    return kind == Cell::lstm && !sizes_match(hidden.size(2), cell.size(2));
  }
};

constexpr std::string_view layer_name = "recurrent layer";

void check_dtype(const LayerCall& c, const Tensor& t) {
  require(t.dtype() == c.input.dtype(),
          "recurrent layer: all tensors must have one dtype, found {} and {}; cast one of them",
          c.input.dtype(), t.dtype());
}

void check_states(const LayerCall& c) {
  require(c.layers >= 1, "recurrent layer: num_layers must be at least 1, found {}", c.layers);
  require(c.input.dim() == 3, "recurrent layer: input must have 3 dimensions, found shape {}",
          c.input.sizes());
  SymInt batch = c.input.size(c.batch_first ? 0 : 1);
  require(expect_true(c.input.size(c.batch_first ? 1 : 0) > 0),
          "recurrent layer: at least one step is expected, found shape {}", c.input.sizes());
  for (const Tensor* state : {&c.hidden, &c.cell}) {
    if (!state->defined()) continue;
    check_dtype(c, *state);
    require(state->dim() == 3, "recurrent layer: a state must have 3 dimensions, found shape {}",
            state->sizes());
    require_shape(layer_name, "the initial state", *state,
                  {c.layers * c.directions(), batch, state->size(2)});
  }
}

void check_cell(const CellWeights& w, SymInt input, SymInt gates, SymInt size, SymInt cell_size) {
  require_shape(layer_name, "the weight of the input", w.input, {gates, input});
  require_shape(layer_name, "the weight of the state", w.hidden, {gates, size});
  if (w.input_bias.defined())
    require_shape(layer_name, "the bias of the input", w.input_bias, {gates});
  if (w.hidden_bias.defined())
    require_shape(layer_name, "the bias of the state", w.hidden_bias, {gates});
  if (w.projection.defined())
    require_shape(layer_name, "the projection", w.projection, {size, cell_size});
}

// The weights of each layer and direction. Throws UserError unless all shapes fit one another:
// kernels and backends count on it.
std::vector<CellWeights> checked_weights(const LayerCall& c) {
  check_states(c);
  for (const Tensor& t : c.params) check_dtype(c, t);
  std::vector<CellWeights> weights = split_params(c.params, c.has_biases, c.has_projection());
  require(static_cast<int64_t>(weights.size()) == c.layers * c.directions(),
          "recurrent layer: parameters for {} layers and directions were expected, found {}",
          c.layers * c.directions(), weights.size());
  SymInt size = c.hidden.size(2), cell_size = c.cell.defined() ? c.cell.size(2) : size;
  SymInt gates = cell_size * gates_of(c.kind);
  for (size_t i = 0; i < weights.size(); ++i) {
    bool is_first = static_cast<int64_t>(i) < c.directions();
    check_cell(weights[i], is_first ? c.input.size(2) : size * c.directions(), gates, size,
               cell_size);
  }
  return weights;
}

struct DirectionResult {
  Tensor output;
  StepState last;
};

DirectionResult run_direction(Cell kind, const Tensor& x, StepState state, const CellWeights& w,
                              bool backward) {
  std::vector<Tensor> gates = unbind(linear(x, w.input, w.input_bias), 0), outputs(gates.size());
  for (size_t i = 0; i < gates.size(); ++i) {
    size_t t = backward ? gates.size() - 1 - i : i;
    state = step_of(kind, gates[t], state, w);
    outputs[t] = state.hidden;
  }
  return {stack(outputs, 0), state};
}

RecurrentResult recurrent_decomp(const LayerCall& c) {
  std::vector<CellWeights> weights = checked_weights(c);
  std::vector<Tensor> hidden = unbind(c.hidden, 0), cell;
  if (c.cell.defined()) cell = unbind(c.cell, 0);
  Tensor x = c.batch_first ? transpose(c.input, 0, 1) : c.input;
  for (int64_t layer = 0; layer < c.layers; ++layer) {
    std::vector<Tensor> outputs;
    for (int64_t d = 0; d < c.directions(); ++d) {
      auto at = static_cast<size_t>(layer * c.directions() + d);
      StepState first{hidden[at], c.cell.defined() ? cell[at] : Tensor()};
      DirectionResult r = run_direction(c.kind, x, first, weights[at], d == 1);
      outputs.push_back(r.output);
      hidden[at] = r.last.hidden;
      if (c.cell.defined()) cell[at] = r.last.cell;
    }
    x = outputs.size() == 1 ? outputs[0] : cat(outputs, -1);
    if (c.dropout_p != 0 && c.train && layer + 1 < c.layers) x = dropout(x, c.dropout_p, true);
  }
  return {c.batch_first ? transpose(x, 0, 1) : x, stack(hidden, 0),
          c.cell.defined() ? stack(cell, 0) : Tensor()};
}

// Whether the kernels can do it: no dropout, no projection.
bool fits_kernel(const LayerCall& c) {
  bool drops = c.train && c.dropout_p != 0 && c.layers > 1;
  return !c.has_projection() && !drops && c.input.size(0) != 0 && is_floating(c.input.dtype());
}

RecurrentResult recurrent_kernel(const LayerCall& c) {
  std::vector<CellWeights> weights = checked_weights(c);
  if (!fits_kernel(c)) return recurrent_decomp(c);
  RecurrentShape shape{c.layers, c.directions(), c.batch_first};
  return c.kind == Cell::lstm ? run_lstm(c.input, c.hidden, c.cell, weights, shape)
                              : run_gru(c.input, c.hidden, weights, shape);
}

std::array<TensorMeta, 2> recurrent_metas(const LayerCall& c) {
  checked_weights(c);
  SymInt steps = c.input.size(c.batch_first ? 1 : 0), batch = c.hidden.size(1);
  SymInt width = c.hidden.size(2) * c.directions();
  TensorMeta out = contiguous_meta({steps, batch, width}, c.input.dtype(), c.input.device());
  if (c.batch_first) {
    std::swap(out.sizes[0], out.sizes[1]);
    std::swap(out.strides[0], out.strides[1]);
  }
  return {std::move(out), contiguous_meta(c.hidden.sizes(), c.hidden.dtype(), c.hidden.device())};
}

// ---- rows

LayerCall lstm_call(const Tensor& input, TensorList hx, TensorList params, bool has_biases,
                    int64_t layers, double dropout_p, bool train, bool bidirectional,
                    bool batch_first) {
  require(hx.size() == 2, "lstm: hx must hold the hidden and the cell state, found {} tensors",
          hx.size());
  return {Cell::lstm, input,     hx[0], hx[1],         params,     has_biases,
          layers,     dropout_p, train, bidirectional, batch_first};
}

using Pair = std::tuple<Tensor, Tensor>;
using Triple = std::tuple<Tensor, Tensor, Tensor>;

Triple lstm_decomp(const Tensor& input, TensorList hx, TensorList params, bool has_biases,
                   int64_t layers, double dropout_p, bool train, bool bidirectional,
                   bool batch_first) {
  RecurrentResult r = recurrent_decomp(lstm_call(input, hx, params, has_biases, layers, dropout_p,
                                                 train, bidirectional, batch_first));
  return {r.output, r.hidden, r.cell};
}

Triple lstm_kernel(const Tensor& input, TensorList hx, TensorList params, bool has_biases,
                   int64_t layers, double dropout_p, bool train, bool bidirectional,
                   bool batch_first) {
  RecurrentResult r = recurrent_kernel(lstm_call(input, hx, params, has_biases, layers, dropout_p,
                                                 train, bidirectional, batch_first));
  return {r.output, r.hidden, r.cell};
}

std::array<TensorMeta, 3> lstm_metas(const Tensor& input, TensorList hx, TensorList params,
                                     bool has_biases, int64_t layers, double dropout_p, bool train,
                                     bool bidirectional, bool batch_first) {
  std::array<TensorMeta, 2> m = recurrent_metas(lstm_call(
      input, hx, params, has_biases, layers, dropout_p, train, bidirectional, batch_first));
  return {m[0], m[1], contiguous_meta(hx[1].sizes(), hx[1].dtype(), hx[1].device())};
}

LayerCall layer_call(Cell kind, const Tensor& input, const Tensor& hx, TensorList params,
                     bool has_biases, int64_t layers, double dropout_p, bool train,
                     bool bidirectional, bool batch_first) {
  return {kind,  input,         hx,         {}, params, has_biases, layers, dropout_p,
          train, bidirectional, batch_first};
}

template <Cell kind>
Pair layer_decomp(const Tensor& input, const Tensor& hx, TensorList params, bool has_biases,
                  int64_t layers, double dropout_p, bool train, bool bidirectional,
                  bool batch_first) {
  RecurrentResult r = recurrent_decomp(layer_call(kind, input, hx, params, has_biases, layers,
                                                  dropout_p, train, bidirectional, batch_first));
  return {r.output, r.hidden};
}

Pair gru_kernel(const Tensor& input, const Tensor& hx, TensorList params, bool has_biases,
                int64_t layers, double dropout_p, bool train, bool bidirectional,
                bool batch_first) {
  RecurrentResult r = recurrent_kernel(layer_call(Cell::gru, input, hx, params, has_biases, layers,
                                                  dropout_p, train, bidirectional, batch_first));
  return {r.output, r.hidden};
}

template <Cell kind>
std::array<TensorMeta, 2> layer_metas(const Tensor& input, const Tensor& hx, TensorList params,
                                      bool has_biases, int64_t layers, double dropout_p, bool train,
                                      bool bidirectional, bool batch_first) {
  return recurrent_metas(layer_call(kind, input, hx, params, has_biases, layers, dropout_p, train,
                                    bidirectional, batch_first));
}

template <Cell kind>
Tensor cell_decomp(const Tensor& input, const Tensor& hx, const Tensor& w_ih, const Tensor& w_hh,
                   const Tensor& b_ih, const Tensor& b_hh) {
  return step_of(kind, linear(input, w_ih, b_ih), {hx, {}}, {w_ih, w_hh, b_ih, b_hh, {}}).hidden;
}

Pair lstm_cell_decomp(const Tensor& input, TensorList hx, const Tensor& w_ih, const Tensor& w_hh,
                      const Tensor& b_ih, const Tensor& b_hh) {
  require(hx.size() == 2, "lstm_cell: hx must hold the hidden and the cell state, found {} tensors",
          hx.size());
  StepState s = lstm_step(linear(input, w_ih, b_ih), {hx[0], hx[1]}, {w_ih, w_hh, b_ih, b_hh, {}});
  return {s.hidden, s.cell};
}

}  // namespace

static constexpr OpDef nn_rnn_rows[] = {
    {.schema =
         "lstm.input(Tensor input, Tensor[] hx, Tensor[] params, bool has_biases, int num_layers, "
         "float dropout, bool train, bool bidirectional, bool batch_first) -> (Tensor, Tensor, "
         "Tensor)",
     .tags = OpTags::recurrent,
     .meta = fn<lstm_metas>,
     .eager = fn<lstm_kernel>,
     .decomp = fn<lstm_decomp>},
    {.schema =
         "gru.input(Tensor input, Tensor hx, Tensor[] params, bool has_biases, int num_layers, "
         "float dropout, bool train, bool bidirectional, bool batch_first) -> (Tensor, Tensor)",
     .tags = OpTags::recurrent,
     .meta = fn<layer_metas<Cell::gru>>,
     .eager = fn<gru_kernel>,
     .decomp = fn<layer_decomp<Cell::gru>>},
    {.schema =
         "rnn_tanh.input(Tensor input, Tensor hx, Tensor[] params, bool has_biases, int "
         "num_layers, "
         "float dropout, bool train, bool bidirectional, bool batch_first) -> (Tensor, Tensor)",
     .tags = OpTags::recurrent,
     .meta = fn<layer_metas<Cell::tanh>>,
     .decomp = fn<layer_decomp<Cell::tanh>>},
    {.schema =
         "rnn_relu.input(Tensor input, Tensor hx, Tensor[] params, bool has_biases, int "
         "num_layers, "
         "float dropout, bool train, bool bidirectional, bool batch_first) -> (Tensor, Tensor)",
     .tags = OpTags::recurrent,
     .meta = fn<layer_metas<Cell::relu>>,
     .decomp = fn<layer_decomp<Cell::relu>>},
    {.schema = "lstm_cell(Tensor input, Tensor[] hx, Tensor w_ih, Tensor w_hh, Tensor? b_ih=None, "
               "Tensor? b_hh=None) -> (Tensor, Tensor)",
     .decomp = fn<lstm_cell_decomp>},
    {.schema = "gru_cell(Tensor input, Tensor hx, Tensor w_ih, Tensor w_hh, Tensor? b_ih=None, "
               "Tensor? b_hh=None) -> Tensor",
     .decomp = fn<cell_decomp<Cell::gru>>},
    {.schema =
         "rnn_tanh_cell(Tensor input, Tensor hx, Tensor w_ih, Tensor w_hh, Tensor? b_ih=None, "
         "Tensor? b_hh=None) -> Tensor",
     .decomp = fn<cell_decomp<Cell::tanh>>},
    {.schema =
         "rnn_relu_cell(Tensor input, Tensor hx, Tensor w_ih, Tensor w_hh, Tensor? b_ih=None, "
         "Tensor? b_hh=None) -> Tensor",
     .decomp = fn<cell_decomp<Cell::relu>>},
};

extern constinit const OpFamily op_family_nn_rnn{nn_rnn_rows};

}  // namespace tenon::ops
