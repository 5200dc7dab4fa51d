// The one place that talks to oneDNN's runtime: engine, streams, scratch memory, running a
// primitive.
//
// oneDNN never opens a parallel region here: primitives are made and run under OpenMP limit 1, and
// the plugin cuts the work for the host's threads itself. The limit belongs to the thread and is
// put back, since the calling thread is the user's. Scratch memory belongs to the thread that runs
// a primitive (scratchpad mode `user`), so one primitive may run on all threads at once.
#pragma once

#include <oneapi/dnnl/dnnl.hpp>

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <vector>

namespace onednn {

using Desc = dnnl::memory::desc;
using Dims = dnnl::memory::dims;

const dnnl::engine& engine();

/// While it lives, this thread makes and runs primitives without a team of OpenMP threads.
class OneThread {
 public:
  OneThread();
  ~OneThread();
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;

 private:
  int before_;
};

/// Scratch memory of this thread, one block a purpose; valid until the next call for that purpose.
enum class Scratch { library, source_tile, result_tile, gradient_tile, weights_tile, count };
void* scratch(Scratch purpose, size_t bytes);

/// Attributes that every primitive here is made with.
dnnl::primitive_attr attributes();

/// Whether an implementation is the slow reference, which is worse than the host's own kernels.
bool is_reference(const dnnl::primitive_desc_base& pd);
/// Whether a kernel for bf16 makes do without the CPU's instructions for that: a quarter of the
/// speed that f32 has.
bool emulates_bf16(const dnnl::primitive_desc_base& pd);

/// A number that differs between layouts.
uint64_t fingerprint(const Desc& layout);
/// The same memory as plain bytes. oneDNN writes the zeros of a padded layout anew whenever an
/// argument gets an address; described so, packed weights are only read.
Desc as_bytes(const Desc& layout);

struct Slot {
  int index;  // DNNL_ARG_...
  Desc desc;  // empty: there is no such argument
};

/// A primitive with its arguments, which are held between calls: a call changes addresses only.
/// Threads: any, `sets` of them at the same time without making arguments anew; copies share them.
class Call {
 public:
  Call() = default;
  Call(const dnnl::primitive& run, const Desc& scratchpad, std::vector<Slot> slots,
       int64_t sets = 1);
  explicit operator bool() const { return held_ != nullptr; }
  /// Runs on this thread; one address for each slot, in their order. The scratchpad is added.
  void operator()(std::initializer_list<const void*> addresses) const;

 private:
  struct Arguments;
  struct Held;
  std::shared_ptr<Held> held_;
};

/// A call with source, weights, bias and result, and what they look like.
struct Primitive {
  Call run;
  Desc source, weights, result;

  explicit operator bool() const { return static_cast<bool>(run); }
};

struct Argument {
  int index;  // DNNL_ARG_...
  const Desc& desc;
  const void* data;
};
/// Runs on this thread with arguments made for this once; the scratchpad is added.
void execute(const dnnl::primitive& p, const Desc& scratchpad,
             std::initializer_list<Argument> args);

/// A layout change from one description to another.
struct Reorder {
  Call run;
  Desc from, to;

  Reorder() = default;
  Reorder(const Desc& from, const Desc& to, int64_t sets = 1);
  explicit operator bool() const { return static_cast<bool>(run); }
  void operator()(const void* source, void* result) const { run({source, result}); }
};

}  // namespace onednn
