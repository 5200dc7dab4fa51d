#include "epilogue_calls.h"

#include <algorithm>
#include <cmath>

namespace inductor {

std::vector<onednn::PostOp> post_ops_of(const std::vector<loopir::EpilogueOp>& epilogue) {
  using From = loopir::EpilogueOp::Kind;
  using To = onednn::PostOp;
  auto post_op = [](From kind) {
    switch (kind) {
      case From::relu:
        return To::relu;
      case From::hardswish:
        return To::hardswish;
      case From::hardsigmoid:
        return To::hardsigmoid;
      case From::silu:
        return To::silu;
      case From::gelu_erf:
        return To::gelu;
      case From::sigmoid:
        return To::sigmoid;
      case From::tanh:
        return To::tanh;
      case From::add:
        return To::add;
      case From::gelu_tanh:
        break;
    }
    throw tenon::plugin::error(TN_INTERNAL, "an epilogue is none of this library's");
  };
  std::vector<To> out;
  for (const loopir::EpilogueOp& op : epilogue) out.push_back(post_op(op.kind));
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

const void* operand_of(const std::vector<loopir::EpilogueOp>& epilogue,
                       std::span<void* const> pointers) {
  for (const loopir::EpilogueOp& op : epilogue)
    if (op.kind == loopir::EpilogueOp::Kind::add) return pointers[op.operand.buffer];
  return nullptr;
}

FinishList::FinishList(std::span<const microkernel::Finish> finish,
                       const std::vector<loopir::EpilogueOp>& epilogue,
                       std::span<void* const> pointers)
    : n_(finish.size()) {
  std::copy(finish.begin(), finish.end(), list_.begin());
  size_t first = n_ - epilogue.size();  // behind what is done before the epilogue
  for (size_t i = 0; i < epilogue.size(); ++i)
    if (epilogue[i].kind == loopir::EpilogueOp::Kind::add)
      list_[first + i].operand = pointers[epilogue[i].operand.buffer];
}

float finished(float v, const std::vector<loopir::EpilogueOp>& epilogue,
               const std::function<float(loopir::Id)>& operand_in) {
  using Kind = loopir::EpilogueOp::Kind;
  auto sigmoid = [](float x) { return 1 / (1 + std::exp(-x)); };
  for (const loopir::EpilogueOp& op : epilogue) {
    float clipped = std::clamp(v + 3, 0.0f, 6.0f) / 6;
    v = op.kind == Kind::relu          ? (v < 0 ? 0 : v)
        : op.kind == Kind::hardswish   ? v * clipped
        : op.kind == Kind::hardsigmoid ? clipped
        : op.kind == Kind::silu        ? v * sigmoid(v)
        : op.kind == Kind::gelu_erf    ? v * 0.5f * (1 + std::erf(v * 0.70710678f))
        : op.kind == Kind::sigmoid     ? sigmoid(v)
        : op.kind == Kind::tanh        ? std::tanh(v)
                                       : v + operand_in(op.operand.buffer);
  }
  return v;
}

}  // namespace inductor
