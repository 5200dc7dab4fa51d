// Operations for cuDNN, as data: what a plan is found for.
#pragma once

#include "../api/cudnn.h"

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace inductor_cuda {

/// A tensor of a graph. Sizes and strides are in elements.
struct DnnTensor {
  enum class Place : uint8_t {
    memory,   // at an address that each run tells
    between,  // only between two operations
    number    // an f32 that each run tells
  };
  Place place = Place::memory;
  dnn::DataType dtype = dnn::data_f32;
  std::vector<int64_t> sizes, strides;
};

struct DnnOperation {
  enum class Kind : uint8_t {
    forward,
    of_source,
    of_weights,
    pointwise,
    product,
    reduction,
    reshape
  };
  static constexpr size_t absent = SIZE_MAX;

  Kind kind;
  /// Of convolutions: weights, source, result; pointwise: x, b, y, t; products: a, b, c; reductions
  /// and reshapes: x, y. Places in the graph's list.
  std::array<size_t, 4> tensors{absent, absent, absent, absent};
  int32_t mode = 0;   // of pointwise operations and reductions
  int64_t axis = -1;  // of indices
  std::vector<int64_t> strides = {}, paddings = {}, dilations = {};  // by dimension of space
};

/// Sums are in f32.
struct DnnGraph {
  std::vector<DnnTensor> tensors;
  std::vector<DnnOperation> operations;  // in their order
  bool has_few_keys = false;             // attention whose keys are one tile

  size_t add(DnnTensor t) {
    tensors.push_back(std::move(t));
    return tensors.size() - 1;
  }
  void point(dnn::PointwiseMode mode, size_t x, size_t b, size_t y,
             size_t t = DnnOperation::absent) {
    operations.push_back({DnnOperation::Kind::pointwise, {x, b, y, t}, mode});
  }
  void multiply(size_t a, size_t b, size_t c) {
    operations.push_back({DnnOperation::Kind::product, {a, b, c, DnnOperation::absent}});
  }
  void reduce(dnn::ReductionMode mode, size_t x, size_t y) {
    operations.push_back(
        {DnnOperation::Kind::reduction, {x, y, DnnOperation::absent, DnnOperation::absent}, mode});
  }
  void reshape(size_t x, size_t y) {
    operations.push_back(
        {DnnOperation::Kind::reshape, {x, y, DnnOperation::absent, DnnOperation::absent}});
  }
  /// Whether it has products, for whose graphs the library always compiles.
  bool is_attention() const;
  /// All of it, as text.
  std::string key() const;
};

}  // namespace inductor_cuda
