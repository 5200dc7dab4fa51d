// Steps of a program as graphs for cuDNN: their tensors, and what each of them is.
#pragma once

#include "graph.h"

#include <loopir/kernel.h>

#include <optional>

namespace inductor_cuda {

using loopir::Id;

/// What a tensor of a graph is at a call: an element of a buffer, or a number.
struct DnnBinding {
  Id buffer = loopir::none;
  int64_t byte_offset = 0;
  float number = 0;
  bool is_result = false;
  bool is_scratch = false;  // lies in the workspace
};

struct DnnProblem {
  DnnGraph graph;
  std::vector<DnnBinding> bindings;  // by tensor of the graph
};

/// Nothing where a size or a stride is a symbol, or where the library has no such operation: f64,
/// masks, other functions than an addition and relu behind it.
std::optional<DnnProblem> problem_of(const loopir::Program& program, const loopir::Convolution& c);
std::optional<DnnProblem> problem_of(const loopir::Program& program,
                                     const loopir::ConvolutionGradient& g);
std::optional<DnnProblem> problem_of(const loopir::Program& program, const loopir::Attention& a);
std::optional<DnnProblem> problem_of(const loopir::Program& program,
                                     const loopir::AttentionGradient& g);
std::optional<DnnProblem> problem_of(const loopir::Program& program, const loopir::Item& item);

}  // namespace inductor_cuda
