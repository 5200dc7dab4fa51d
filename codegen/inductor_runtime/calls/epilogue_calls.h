// Epilogues, as the libraries that run them want them.
#pragma once

#include <dnn/prepared.h>
#include <loopir/program.h>
#include <microkernel/kernels.h>
#include <tenon/plugin.hpp>

#include <array>
#include <functional>
#include <optional>
#include <span>
#include <vector>

namespace inductor {

std::vector<onednn::PostOp> post_ops_of(const std::vector<loopir::EpilogueOp>& epilogue);

/// The same for a microkernel; nothing where it lacks one of them, or there are too many.
constexpr size_t most_finishes = 8;
std::optional<std::vector<microkernel::Finish>> finish_of(
    const std::vector<loopir::EpilogueOp>& epilogue);

/// The operand of an epilogue that has at most one, or null.
const void* operand_of(const std::vector<loopir::EpilogueOp>& epilogue,
                       std::span<void* const> pointers);

/// What finish_of() gave for an epilogue, with the operands of a call.
class FinishList {
 public:
  FinishList(std::span<const microkernel::Finish> finish,
             const std::vector<loopir::EpilogueOp>& epilogue, std::span<void* const> pointers);
  operator std::span<const microkernel::Finish>() const { return {list_.data(), n_}; }

 private:
  std::array<microkernel::Finish, most_finishes> list_;
  size_t n_;
};

/// Where no library has anything fast: one element after the other.
/// `operand_in`(buffer): the operand of an addition at the place in question.
float finished(float v, const std::vector<loopir::EpilogueOp>& epilogue,
               const std::function<float(loopir::Id)>& operand_in);

}  // namespace inductor
