// LSTM and GRU kernels.
//
// Method: the inputs of all steps are multiplied with the input weights at once, one large product.
//   What is left for a step is a product with the hidden weights and the gates, whose functions are
//   computed by rows. A step writes its state straight into the layer's output; the next step reads
//   it there. 16-bit tensors are computed in f32.
// Cost: the products; the steps of a layer depend on each other, threads help within a step.
#include "ops/nn/recurrent.h"

#include "core/kernels/gemm.h"
#include "core/kernels/level_table.h"
#include "core/threads/thread_pool.h"
#include "ops/kernel_loops.h"
#include "ops/linalg/product.h"

#include <algorithm>
#include <cmath>

namespace tenon::ops {

std::vector<CellWeights> split_params(TensorList params, bool has_biases, bool has_projection) {
  size_t per_cell = (has_biases ? 4u : 2u) + (has_projection ? 1u : 0u);
  require(!params.empty() && params.size() % per_cell == 0,
          "recurrent layer: the number of parameters must be a multiple of {}, found {}", per_cell,
          params.size());
  std::vector<CellWeights> cells;
  for (size_t i = 0; i < params.size(); i += per_cell) {
    CellWeights w{params[i], params[i + 1], {}, {}, {}};
    if (has_biases) w.input_bias = params[i + 2], w.hidden_bias = params[i + 3];
    if (has_projection) w.projection = params[i + per_cell - 1];
    cells.push_back(std::move(w));
  }
  return cells;
}

namespace {

// ---- rows of gates

template <class C>
void sigmoid_row(C* x, int64_t n) {
  const auto& level = kernels::row_level<C>();
  level.scale(x, x, n, C(0), C(-1), C(0));
  level.exp(x, x, n);
  for (int64_t i = 0; i < n; ++i) x[i] = 1 / (1 + x[i]);
}

// y = tanh(x) as 2 sigmoid(2x) - 1, which loses digits near 0: there f32 takes the series.
template <class C>
void tanh_row(const C* x, C* y, int64_t n) {
  const auto& level = kernels::row_level<C>();
  level.scale(x, y, n, C(0), C(-2), C(0));
  level.exp(y, y, n);
  for (int64_t i = 0; i < n; ++i) {
    C far = 2 / (1 + y[i]) - 1;
    if constexpr (std::is_same_v<C, float>) {
      C v = x[i], s = v * v;
      C near = v * (1 + s * (-1.0f / 3 + s * (2.0f / 15 + s * (-17.0f / 315))));
      far = std::abs(v) < 0.2f ? near : far;
    }
    y[i] = far;
  }
}

// ---- one layer in one direction

template <class C>
struct Layer {
  int64_t steps, batch, size;  // size of the state
  const C* hidden_weight;      // [gates * size, size]
  const C* hidden_bias;        // [gates * size] or null
  C* gates;                    // [steps, batch, gates * size]: the inputs' part
  C* output;                   // of step 0 and row 0
  int64_t row, step;           // distances of rows and steps in the output
  const C* first_state;        // [batch, size]
  C* cell;                     // [batch, size], updated; null for a GRU
  bool backward;
};

// The state before step t: an earlier output, or the given one.
template <class C>
struct State {
  const C* data;
  int64_t row;
};

template <class C>
State<C> state_before(const Layer<C>& l, int64_t i) {
  if (i == 0) return {l.first_state, l.size};
  int64_t t = l.backward ? l.steps - i : i - 1;
  return {l.output + t * l.step, l.row};
}

template <class C>
void add_hidden_product(const Layer<C>& l, int64_t n_gates, State<C> h, C* gates) {
  using kernels::Trans;
  int64_t width = n_gates * l.size;
  kernels::gemm<C>(Trans::no, Trans::yes, l.batch, width, l.size, C(1), h.data, h.row,
                   l.hidden_weight, l.size, C(1), gates, width);
}

template <class C>
void lstm_row(C* gates, C* cell, C* out, C* scratch, int64_t n) {
  sigmoid_row(gates, 2 * n);
  tanh_row(gates + 2 * n, scratch, n);
  sigmoid_row(gates + 3 * n, n);
  for (int64_t i = 0; i < n; ++i) cell[i] = gates[n + i] * cell[i] + gates[i] * scratch[i];
  tanh_row(cell, scratch, n);
  for (int64_t i = 0; i < n; ++i) out[i] = gates[3 * n + i] * scratch[i];
}

template <class C>
void gru_row(C* input, C* hidden, const C* state, C* out, C* scratch, int64_t n) {
  for (int64_t i = 0; i < 2 * n; ++i) input[i] += hidden[i];
  sigmoid_row(input, 2 * n);
  for (int64_t i = 0; i < n; ++i) input[2 * n + i] += input[i] * hidden[2 * n + i];
  tanh_row(input + 2 * n, scratch, n);
  for (int64_t i = 0; i < n; ++i) out[i] = (state[i] - scratch[i]) * input[n + i] + scratch[i];
}

template <class F>
void for_each_row_of_batch(int64_t batch, int64_t work, const F& body) {
  parallel_for(0, batch, std::max<int64_t>(1, 4096 / std::max<int64_t>(1, work)),
               [&](int64_t lo, int64_t hi) {
                 for (int64_t b = lo; b < hi; ++b) body(b);
               });
}

template <class C>
void run_lstm_layer(const Layer<C>& l) {
  std::vector<C> scratch(static_cast<size_t>(l.batch * l.size));
  for (int64_t i = 0; i < l.steps; ++i) {
    int64_t t = l.backward ? l.steps - 1 - i : i, width = 4 * l.size;
    C* gates = l.gates + t * l.batch * width;
    add_hidden_product(l, 4, state_before(l, i), gates);
    for_each_row_of_batch(l.batch, width, [&](int64_t b) {
      lstm_row(gates + b * width, l.cell + b * l.size, l.output + t * l.step + b * l.row,
               scratch.data() + b * l.size, l.size);
    });
  }
}

template <class C>
void run_gru_layer(const Layer<C>& l) {
  int64_t width = 3 * l.size;
  std::vector<C> scratch(static_cast<size_t>(l.batch * l.size)),
      hidden(static_cast<size_t>(l.batch * width));
  for (int64_t i = 0; i < l.steps; ++i) {
    int64_t t = l.backward ? l.steps - 1 - i : i;
    State<C> h = state_before(l, i);
    for (int64_t b = 0; b < l.batch; ++b)
      for (int64_t j = 0; j < width; ++j)
        hidden[static_cast<size_t>(b * width + j)] = l.hidden_bias ? l.hidden_bias[j] : C(0);
    add_hidden_product(l, 3, h, hidden.data());
    for_each_row_of_batch(l.batch, width, [&](int64_t b) {
      gru_row(l.gates + (t * l.batch + b) * width, hidden.data() + b * width, h.data + b * h.row,
              l.output + t * l.step + b * l.row, scratch.data() + b * l.size, l.size);
    });
  }
}

// ---- all layers

struct Run {
  const Tensor &hidden, &cell;
  std::span<const CellWeights> weights;
  RecurrentShape shape;
  Dtype dtype;
  int64_t n_gates, steps, batch, size;
  Tensor last_hidden, last_cell;
};

// For an LSTM both biases are added at once; a GRU needs the hidden one apart.
Tensor input_bias_of(const CellWeights& w, const Run& run) {
  if (!w.input_bias.defined()) return {};
  Tensor bias = make_tensor(contiguous_meta(w.input_bias.sizes(), run.dtype));
  copy_elements(bias, w.input_bias);
  if (run.n_gates != 4) return bias;
  Tensor other = converted(w.hidden_bias, run.dtype);
  auto add_other = [&]<class C>() {
    for (int64_t i = 0; i < numel_of(bias); ++i) data_of<C>(bias)[i] += data_of<C>(other)[i];
  };
  if (run.dtype == Dtype::f64)
    add_other.template operator()<double>();
  else
    add_other.template operator()<float>();
  return bias;
}

template <class C>
void run_direction(Run& run, const Tensor& x, const Tensor& y, int64_t layer, int64_t direction) {
  int64_t index = layer * run.shape.directions + direction, state = run.batch * run.size;
  const CellWeights& w = run.weights[static_cast<size_t>(index)];
  Tensor gates = make_tensor(IntList{run.steps, run.batch, run.n_gates * run.size}, run.dtype);
  multiply_linear(gates, x, converted(w.input, run.dtype), input_bias_of(w, run));
  Tensor weight = converted(w.hidden, run.dtype);
  Tensor bias = w.hidden_bias.defined() ? converted(w.hidden_bias, run.dtype) : Tensor();
  int64_t row = run.shape.directions * run.size;
  Layer<C> l{run.steps,
             run.batch,
             run.size,
             data_of<C>(weight),
             bias.defined() ? data_of<C>(bias) : nullptr,
             data_of<C>(gates),
             data_of<C>(y) + direction * run.size,
             row,
             run.batch * row,
             data_of<C>(run.last_hidden) + index * state,
             run.last_cell.defined() ? data_of<C>(run.last_cell) + index * state : nullptr,
             direction == 1};
  run.n_gates == 4 ? run_lstm_layer(l) : run_gru_layer(l);
  if (run.steps == 0) return;
  const C* last = l.output + (l.backward ? 0 : run.steps - 1) * l.step;
  for (int64_t b = 0; b < run.batch; ++b)
    std::copy_n(last + b * l.row, run.size,
                data_of<C>(run.last_hidden) + index * state + b * run.size);
}

Tensor own_copy(const Tensor& t, Dtype dtype) {
  Tensor copy = make_tensor(contiguous_meta(t.sizes(), dtype));
  copy_elements(copy, t);
  return copy;
}

Tensor time_first(const Tensor& t) {
  return make_view(t, {t.size(1), t.size(0), t.size(2)}, {t.stride(1), t.stride(0), t.stride(2)},
                   t.storage_offset());
}

RecurrentResult run_layers(const Tensor& input, const Tensor& hidden, const Tensor& cell,
                           std::span<const CellWeights> weights, const RecurrentShape& shape,
                           int64_t n_gates) {
  Dtype given = input.dtype(), dtype = given == Dtype::f64 ? given : Dtype::f32;
  Tensor x = converted(shape.batch_first ? time_first(input) : input, dtype);
  Run run{hidden,
          cell,
          weights,
          shape,
          dtype,
          n_gates,
          x.size(0),
          x.size(1),
          hidden.size(2),
          own_copy(hidden, dtype),
          cell.defined() ? own_copy(cell, dtype) : Tensor()};
  for (int64_t layer = 0; layer < shape.layers; ++layer) {
    Tensor y = make_tensor(IntList{run.steps, run.batch, shape.directions * run.size}, dtype);
    for (int64_t d = 0; d < shape.directions; ++d) {
      if (dtype == Dtype::f64)
        run_direction<double>(run, x, y, layer, d);
      else
        run_direction<float>(run, x, y, layer, d);
    }
    x = y;
  }
  x = converted(x, given);
  return {shape.batch_first ? time_first(x) : x, converted(run.last_hidden, given),
          cell.defined() ? converted(run.last_cell, given) : Tensor()};
}

}  // namespace

RecurrentResult run_lstm(const Tensor& input, const Tensor& hidden, const Tensor& cell,
                         std::span<const CellWeights> weights, const RecurrentShape& shape) {
  return run_layers(input, hidden, cell, weights, shape, 4);
}

RecurrentResult run_gru(const Tensor& input, const Tensor& hidden,
                        std::span<const CellWeights> weights, const RecurrentShape& shape) {
  return run_layers(input, hidden, Tensor(), weights, shape, 3);
}

}  // namespace tenon::ops
