// Which thread runs the body that a fake belongs to.
//
// Problem: who records is known to its own thread only. A thread that a body starts has no recorder:
// an operation on a fake would do there what it does on the device meta, and be lost. Model:
// recorders list the numbers of their traces here, with their thread. Bodies that run along paths are
// counted by thread, which costs them next to nothing; the program meets the fakes of frames while
// their bodies run. What takes a fake where nothing is recorded asks first.
//
// Threads: any.
#pragma once

#include "core/dispatch.h"
#include "core/tensor/tensor_impl.h"

#include <string_view>

namespace tenon {

/// Traces of frames have numbers from here on, those of recorders lower ones.
constexpr uint64_t first_frame_trace = uint64_t{1} << 63;
/// Of fakes whose call has failed before they were computed.
constexpr uint64_t lost_trace = first_frame_trace - 1;
inline void mark_lost(const Tensor& fake) {
  TensorExtra& extra = impl_of(fake)->ensure_extra();
  extra.leave_trace();
  extra.life.reset();
  extra.trace_id = lost_trace;
}

/// How many bodies this thread runs along paths.
extern thread_local constinit int32_t n_bodies_along_paths;

/// Fakes of `trace` belong to this thread until `recorder` goes.
void own_trace(uint64_t trace, const void* recorder);
/// So do those of another trace of a recorder that has begun.
void own_another_trace(uint64_t trace, const void* recorder);
void disown_traces(const void* recorder);

/// Whether a body that another thread runs has made the fake.
bool is_of_other_thread(const Tensor& fake);
/// Throws UserError, which names `what`, for a fake of such a body, and for one that is lost.
[[gnu::cold]] void require_own_fake(const Tensor& fake, std::string_view what);
inline void require_own_thread(const Tensor& t, std::string_view what) {
  if (t.head() && t.head()->flags & TN_T_FAKE && !thread_modes.tracer) [[unlikely]]
    require_own_fake(t, what);
}

}  // namespace tenon
