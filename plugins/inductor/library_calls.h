// Products and convolutions: prepared oneDNN calls for the shapes of a call, weights that are kept.
#pragma once

#include "kernel_interface.h"
#include "workers.h"

#include <loopir/kernel.h>

#include <memory>
#include <span>
#include <vector>

namespace inductor {

/// Memory of its own, aligned for vectors and huge pages where it is large.
class Memory {
 public:
  Memory() = default;
  explicit Memory(size_t bytes);
  Memory(Memory&& o) noexcept;
  Memory& operator=(Memory&& o) noexcept;
  ~Memory();
  std::byte* data() const { return static_cast<std::byte*>(data_); }
  size_t size() const { return size_; }

 private:
  void* data_ = nullptr;
  size_t size_ = 0;
};

/// Memory of this thread for what one call does at a time, aligned for vectors; it grows to the
/// most that was asked for.
float* thread_floats(int64_t floats);

/// What one product or convolution needs; the same object serves any number of calls at once.
class LibraryCall {
 public:
  virtual ~LibraryCall() = default;
  /// Packed weights, or nothing where they are read as they are.
  virtual Memory pack(std::span<void* const> pointers, std::span<const int64_t> symbols) const = 0;
  /// `pointers` by buffer. `packed`: what pack() gave for the same sizes, or null.
  virtual void run(std::span<void* const> pointers, std::span<const int64_t> symbols,
                   const void* packed) const = 0;
  /// Whether run_rows() can be used for these sizes where weights were packed.
  virtual bool runs_by_rows(std::span<const int64_t>) const { return false; }
  /// Rows [row, end) of the result, on this thread.
  virtual void run_rows(std::span<void* const>, std::span<const int64_t>, const void* packed,
                        int64_t row, int64_t end) const;
  /// Whether the library serves it whole, epilogue included, for these sizes.
  virtual bool is_fast(std::span<const int64_t> symbols) const = 0;
};

/// `constant_weights`: pack() is called when they change, else run() reads them where they are.
std::unique_ptr<LibraryCall> prepare(const loopir::Program& program, const loopir::Product& product,
                                     bool constant_weights, const Workers& workers);
std::unique_ptr<LibraryCall> prepare(const loopir::Program& program,
                                     const loopir::Convolution& convolution, bool constant_weights,
                                     const Workers& workers);

std::unique_ptr<LibraryCall> prepare(const loopir::Program& program,
                                     const loopir::ConvolutionGradient& gradient,
                                     const Workers& workers);
std::unique_ptr<LibraryCall> prepare(const loopir::Program& program,
                                     const loopir::Attention& attention, const Workers& workers);

}  // namespace inductor
