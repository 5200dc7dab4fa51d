// Loads and stores of neighbouring elements.
#pragma once

#include "frame.h"

namespace inductor_cuda {

/// Elements of `buffer` from the place `element` on, as registers hold them; where `mask` does not
/// hold (null: everywhere) all bits are 0, and nothing is read.
std::vector<llvm::Value*> load(Frame& f, Id buffer, llvm::Value* element, unsigned n,
                               llvm::Value* mask);
/// An element that the host gives by value.
llvm::Value* host_number(Frame& f, Id buffer);
/// The other way.
void store(Frame& f, Id buffer, llvm::Value* element, std::span<llvm::Value* const> values);
/// Where an element lies, for accesses of `bytes`.
llvm::Value* place_of(Frame& f, Id buffer, llvm::Value* element, unsigned bytes, MemoryUse use);
/// Adds to an element, or makes it the less or the greater of both, whoever else does so.
void change(Frame& f, Id buffer, llvm::Value* element, llvm::Value* value, loopir::Store how);
/// Adds to neighbours in f32, each for itself.
void add_to(Frame& f, Id buffer, llvm::Value* element, std::span<llvm::Value* const> values);
/// A value as it is once it has been in memory.
llvm::Value* rounded(Frame& f, llvm::Value* value, int32_t dtype);

}  // namespace inductor_cuda
