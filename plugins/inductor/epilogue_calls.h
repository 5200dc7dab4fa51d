// Epilogues, as the libraries that run them want them.
#pragma once

#include <dnn/prepared.h>
#include <loopir/program.h>
#include <microkernel/kernels.h>
#include <tenon/plugin.hpp>

#include <array>
#include <optional>
#include <span>
#include <vector>

namespace inductor {

std::vector<onednn::PostOp> post_ops_of(const std::vector<loopir::EpilogueOp>& epilogue);

/// The same for a microkernel; nothing where it lacks one of them, or there are too many.
constexpr size_t most_finishes = 8;
std::optional<std::vector<microkernel::Finish>> finish_of(
    const std::vector<loopir::EpilogueOp>& epilogue);

/// The operands of an epilogue, as run() of a prepared call wants them.
struct Operands {
  static constexpr size_t most = 4;  // make() gives null for more than one
  const void* data[most] = {};

  Operands(const std::vector<loopir::EpilogueOp>& epilogue, std::span<void* const> pointers);
};

/// What finish_of() gave, with the operands of a call.
class FinishList {
 public:
  FinishList(std::span<const microkernel::Finish> finish,
             const std::vector<loopir::EpilogueOp>& epilogue, std::span<void* const> pointers);
  operator std::span<const microkernel::Finish>() const { return {list_.data(), n_}; }
  /// To the operands of a result that begins so many elements later.
  void advance(int64_t elements) {
    for (size_t i = 0; i < n_; ++i)
      if (list_[i].operand) list_[i].operand += elements;
  }

 private:
  std::array<microkernel::Finish, most_finishes> list_;
  size_t n_;
};

/// Where no library has anything fast: one element after the other.
float finished(float v, const std::vector<loopir::EpilogueOp>& epilogue,
               std::span<void* const> pointers, int64_t at);

}  // namespace inductor
