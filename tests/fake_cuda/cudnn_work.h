// A graph of the double of cuDNN, when it runs.
#pragma once

#include "inductor_cuda/api/cudnn.h"

#include "numbers.h"

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace fake_cudnn {

namespace dnn = inductor_cuda::dnn;

struct Tensor {
  dnn::DataType type = dnn::data_f32;
  std::vector<int64_t> sizes, strides;
  int64_t id = 0, alignment = 1;
  bool is_virtual = false, is_by_value = false;

  fake_cuda::Number number() const;
  int64_t count() const;
  int64_t bytes() const;
};

struct Operation {
  enum class Kind : uint8_t {
    forward,
    of_source,
    of_weights,
    pointwise,
    product,
    reduction,
    reshape
  };
  Kind kind;
  std::array<int64_t, 4> tensors{};  // ids, 0 for none; as in the plugin's DnnOperation
  int32_t mode = 0;
  int64_t axis = -1;
  std::vector<int64_t> strides, paddings, dilations;
};

struct Graph {
  std::map<int64_t, Tensor> tensors;  // by id
  std::vector<Operation> operations;

  int64_t workspace_bytes() const;
};

/// What a plan is: the graph, and whether its engine does not round operands.
struct Plan {
  Graph graph;
  bool is_exact = false;
};
/// As text, and back; false for what is no such text.
std::string text_of(const Plan& plan);
bool read_plan(const std::string& text, Plan& out);

/// One run. Numbers are read when it is enqueued.
struct Run {
  Graph graph;
  std::map<int64_t, void*> addresses;  // by id
  std::map<int64_t, double> numbers;   // by id
  void* workspace = nullptr;
  bool is_tf32 = false;

  /// 0, or 700 where something is no memory of the device.
  int32_t run(bool (*may_touch)(const void*, size_t)) const;
};

}  // namespace fake_cudnn
