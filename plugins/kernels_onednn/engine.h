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
#include <initializer_list>

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

/// A primitive that may run on any thread, with what its arguments look like.
struct Primitive {
  dnnl::primitive run;
  Desc source, weights, bias, result, scratchpad;

  explicit operator bool() const { return static_cast<bool>(run); }
};

/// Whether an implementation is the slow reference, which is worse than the host's own kernels.
bool is_reference(const dnnl::primitive_desc_base& pd);

struct Argument {
  int index;  // DNNL_ARG_...
  const Desc& desc;
  const void* data;
};
/// Runs on this thread; the scratchpad is added.
void execute(const dnnl::primitive& p, const Desc& scratchpad,
             std::initializer_list<Argument> args);

/// A layout change from one description to another.
struct Reorder {
  dnnl::primitive run;
  Desc from, to, scratchpad;

  Reorder() = default;
  Reorder(const Desc& from, const Desc& to);
  explicit operator bool() const { return static_cast<bool>(run); }
  void operator()(const void* source, void* result) const;
};

}  // namespace onednn
