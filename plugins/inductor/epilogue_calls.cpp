#include "epilogue_calls.h"

#include <algorithm>
#include <cmath>

namespace inductor {

std::vector<onednn::PostOp> post_ops_of(const std::vector<loopir::EpilogueOp>& epilogue) {
  using From = loopir::EpilogueOp::Kind;
  using To = onednn::PostOp::Kind;
  std::vector<onednn::PostOp> out;
  for (const loopir::EpilogueOp& op : epilogue) {
    switch (op.kind) {
      case From::relu:
        out.push_back({To::relu});
        break;
      case From::hardswish:
        out.push_back({To::hardswish});
        break;
      case From::hardsigmoid:
        out.push_back({To::hardsigmoid});
        break;
      case From::silu:
        out.push_back({To::swish, 1});
        break;
      case From::gelu_erf:
        out.push_back({To::gelu_erf});
        break;
      case From::sigmoid:
        out.push_back({To::logistic});
        break;
      case From::tanh:
        out.push_back({To::tanh});
        break;
      case From::add:
        out.push_back({To::add});
        break;
    }
  }
  return out;
}

std::optional<std::vector<microkernel::Finish>> finish_of(
    const std::vector<loopir::EpilogueOp>& epilogue) {
  using From = loopir::EpilogueOp::Kind;
  using To = microkernel::Finish::Kind;
  std::vector<microkernel::Finish> out;
  if (epilogue.size() > most_finishes) return std::nullopt;
  for (const loopir::EpilogueOp& op : epilogue) {
    if (op.kind == From::relu)
      out.push_back({To::relu});
    else if (op.kind == From::hardswish)
      out.push_back({To::hardswish});
    else if (op.kind == From::hardsigmoid)
      out.push_back({To::hardsigmoid});
    else if (op.kind == From::add)
      out.push_back({To::add});
    else
      return std::nullopt;
  }
  return out;
}

Operands::Operands(const std::vector<loopir::EpilogueOp>& epilogue,
                   std::span<void* const> pointers) {
  size_t n = 0;
  for (const loopir::EpilogueOp& op : epilogue)
    if (op.kind == loopir::EpilogueOp::Kind::add && n < most)
      data[n++] = pointers[op.operand.buffer];
}

FinishList::FinishList(std::span<const microkernel::Finish> finish,
                       const std::vector<loopir::EpilogueOp>& epilogue,
                       std::span<void* const> pointers)
    : n_(finish.size()) {
  std::copy(finish.begin(), finish.end(), list_.begin());
  Operands operands(epilogue, pointers);
  size_t n = 0;
  for (size_t i = 0; i < n_; ++i)
    if (list_[i].kind == microkernel::Finish::Kind::add)
      list_[i].operand = static_cast<const float*>(operands.data[n++]);
}

float finished(float v, const std::vector<loopir::EpilogueOp>& epilogue,
               std::span<void* const> pointers, int64_t at) {
  using Kind = loopir::EpilogueOp::Kind;
  auto sigmoid = [](float x) { return 1 / (1 + std::exp(-x)); };
  for (const loopir::EpilogueOp& op : epilogue) {
    float clipped = std::clamp(v + 3, 0.0f, 6.0f) / 6;
    v = op.kind == Kind::relu          ? (v <= 0 ? 0 : v)
        : op.kind == Kind::hardswish   ? v * clipped
        : op.kind == Kind::hardsigmoid ? clipped
        : op.kind == Kind::silu        ? v * sigmoid(v)
        : op.kind == Kind::gelu_erf    ? v * 0.5f * (1 + std::erf(v * 0.70710678f))
        : op.kind == Kind::sigmoid     ? sigmoid(v)
        : op.kind == Kind::tanh        ? std::tanh(v)
                                       : v + static_cast<float*>(pointers[op.operand.buffer])[at];
  }
  return v;
}

}  // namespace inductor
