// What a thread of a GPU is, as LLVM IR: its numbers, barriers, shuffles, memory.
//
// The emitter asks this table and nothing else, so that the same kernel becomes PTX for a GPU, or
// code for the host's processor that a shim of threads runs (simt.h), which is how machines without
// a GPU test it.
#pragma once

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Module.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace inductor_cuda {

/// A kernel before its code. Every parameter has 8 bytes.
struct KernelShape {
  enum class Parameter : uint8_t { pointer, own_pointer /* nobody else's memory */, number };
  std::string name;
  std::vector<Parameter> parameters;
  unsigned threads = 256;     // of a block
  unsigned least_blocks = 0;  // of a multiprocessor at once; 0: any number
  uint64_t shared_bytes = 0;  // of a block
  bool cooperates = false;    // threads wait for each other
};

/// A kernel whose code begins.
struct BegunKernel {
  llvm::Function* function = nullptr;
  std::vector<llvm::Value*> parameters;
  llvm::Value* shared = nullptr;  // aligned to 16; null where the shape has none
};

/// What is done to memory. A change reads and writes as one, whoever else does so; a report is written
/// by any thread that finds something, and any of them stays.
enum class MemoryUse : uint8_t { read, write, change, report };

/// Threads: one at a time.
class ThreadTarget {
 public:
  virtual ~ThreadTarget() = default;
  /// Adds the function; the builder stands at its begin.
  virtual BegunKernel begin(llvm::Module& module, llvm::IRBuilderBase& b,
                            const KernelShape& shape) = 0;
  /// Numbers of the thread in its block, and of the block, as i32.
  virtual llvm::Value* thread(llvm::IRBuilderBase& b) = 0;
  virtual llvm::Value* block(llvm::IRBuilderBase& b) = 0;
  /// All threads of the block; what they wrote before is seen behind it.
  virtual void barrier(llvm::IRBuilderBase& b) = 0;
  /// The i32 of the thread of this warp whose number differs by `mask`; all threads take part.
  virtual llvm::Value* shuffled(llvm::IRBuilderBase& b, llvm::Value* value, unsigned mask) = 0;
  /// Where `bytes` of global memory, or of memory that the block shares, are used.
  virtual llvm::Value* global(llvm::IRBuilderBase& b, llvm::Value* address, unsigned bytes,
                              MemoryUse use) = 0;
  virtual llvm::Value* shared(llvm::IRBuilderBase& b, llvm::Value* address, unsigned bytes,
                              MemoryUse use) = 0;
  /// Adds to floats that lie beside each other in global memory, `address` at a multiple of their
  /// bytes; each sum is made as one, whoever else adds there.
  virtual void add(llvm::IRBuilderBase& b, llvm::Value* address,
                   std::span<llvm::Value* const> values) = 0;
  /// Two floats rounded to f16 or bf16 in one word, `low` in its low half; null where that is no
  /// instruction.
  virtual llvm::Value* rounded_pair(llvm::IRBuilderBase& b, int32_t dtype, llvm::Value* low,
                                    llvm::Value* high) = 0;
  /// Whether a float becomes a bf16 in one instruction.
  virtual bool converts_to_bf16() const = 0;
};

constexpr unsigned warp = 32;

/// PTX for "sm_90" and its like; code of this processor for "simt".
std::unique_ptr<ThreadTarget> nvptx_target(std::string_view arch);
std::unique_ptr<ThreadTarget> simt_target();
/// Whether kernels for it begin with a wait for the work before them (TN_CUDA_LAUNCH_BEGINS_WITH_WAIT).
bool begins_with_wait(std::string_view arch);
inline bool is_simt(std::string_view arch) { return arch == "simt"; }
inline std::unique_ptr<ThreadTarget> target_of(std::string_view arch) {
  return is_simt(arch) ? simt_target() : nvptx_target(arch);
}

}  // namespace inductor_cuda
