// Products, convolutions, attention and recurrent layers: calls of the microkernel or of oneDNN,
// prepared for the shapes of a call, with packed weights that are kept.
#pragma once

#include "inductor_runtime/memory.h"
#include "inductor_runtime/workers.h"

#include <loopir/program.h>
#include <tenon/plugin.hpp>

#include <memory>
#include <span>
#include <vector>

namespace inductor {

/// What one product or convolution needs; the same object serves any number of calls at once.
class LibraryCall {
 public:
  virtual ~LibraryCall() = default;
  /// Packed weights, or nothing where they are read as they are.
  virtual Memory pack(std::span<void* const> pointers, std::span<const int64_t> symbols) const = 0;
  /// Which form of the weights pack() gives for these sizes: sizes that agree in it share one.
  virtual uint64_t packing(std::span<const int64_t> /*symbols*/) const { return 0; }
  /// `pointers` by buffer. `packed`: what pack() gave for the same form, or null.
  virtual void run(std::span<void* const> pointers, std::span<const int64_t> symbols,
                   const void* packed) const = 0;
  /// Whether run_rows() can be used for these sizes where weights were packed.
  virtual bool runs_by_rows(std::span<const int64_t>) const { return false; }
  /// Rows [row, end) of the result, on this thread.
  virtual void run_rows(std::span<void* const>, std::span<const int64_t>, const void* /*packed*/,
                        int64_t /*row*/, int64_t /*end*/) const {
    throw tenon::plugin::error(TN_INTERNAL, "this library call does not run by rows");
  }
  /// The ways in which it can be done for these sizes; `by_rule` is the first.
  virtual std::vector<loopir::Way> ways(std::span<const int64_t>) const {
    return {loopir::Way::by_rule};
  }
  /// Whether the library serves it whole, epilogue included, for these sizes.
  virtual bool is_fast(std::span<const int64_t> symbols) const = 0;
  /// Whether it would be slower with its result in another layout.
  virtual bool needs_layout(std::span<const int64_t>) const { return false; }
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
std::unique_ptr<LibraryCall> prepare(const loopir::Program& program,
                                     const loopir::Recurrence& recurrence, bool constant_weights,
                                     const Workers& workers);

}  // namespace inductor
