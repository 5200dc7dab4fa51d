// Recurrent layers: their parameters, and the kernels for LSTM and GRU.
#pragma once

#include "core/tensor/tensor_impl.h"

#include <span>
#include <vector>

namespace tenon::ops {

/// Weights of one layer in one direction; biases and projection may be undefined.
struct CellWeights {
  Tensor input, hidden, input_bias, hidden_bias, projection;
};

/// The parameters of a call in their flat order: layer by layer, forward before backward.
std::vector<CellWeights> split_params(TensorList params, bool has_biases, bool has_projection);

struct RecurrentShape {
  int64_t layers, directions;
  bool batch_first;
};

struct RecurrentResult {
  Tensor output, hidden, cell;
};

/// Runs all layers. `input` is [time, batch, size] (or batch first), `hidden` and `cell` are
/// [layers * directions, batch, size]; `cell` is undefined for a GRU. One dtype, no dropout, no
/// projection.
RecurrentResult run_lstm(const Tensor& input, const Tensor& hidden, const Tensor& cell,
                         std::span<const CellWeights> weights, const RecurrentShape& shape);
RecurrentResult run_gru(const Tensor& input, const Tensor& hidden,
                        std::span<const CellWeights> weights, const RecurrentShape& shape);

}  // namespace tenon::ops
