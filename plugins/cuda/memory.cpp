// Memory of a GPU: allocations in the order of a stream, from one pool a device.
#include "error_flag.h"
#include "gpu.h"
#include "trees/arena.h"
#include "trees/recording.h"

#include <tenon/plugin.hpp>

namespace tenon::cuda {

using plugin::error;
using plugin::text;

namespace {

uint64_t pool_figure(Gpu& gpu, api::Pool pool, int32_t which) {
  uint64_t value = 0;
  CU_TRY(gpu, "reading the use of memory", cuMemPoolGetAttribute, pool, which, &value);
  return value;
}

}  // namespace

api::Stream Gpu::handle_of(const tn_stream* stream) const {
  if (!stream) return nullptr;
  if (stream->gpu != this)
    throw error(TN_INVALID_ARGUMENT, text("a stream of cuda:{} was given for work on cuda:{}",
                                          stream->gpu->index(), index_));
  return stream->handle;
}

api::Address Gpu::try_allocate(size_t bytes, tn_stream* stream) {
  const bool keeps = stream && stream->gpu == this && stream->kept;
  if (keeps)
    if (api::Address kept = stream->kept->take(bytes)) return kept;
  api::Address address = 0;
  api::Result result = driver().cuMemAllocFromPoolAsync(
      &address, keeps ? KeptBlocks::rounded(bytes) : bytes, pool_, handle_of(stream));
  if (result == api::error_out_of_memory) return 0;
  if (result != api::success)  // the text costs more than the allocation
    check(*this, result, "cuMemAllocFromPoolAsync", text("allocating {} bytes", bytes));
  return address;
}

void* Gpu::allocate(size_t bytes, tn_stream* stream) {
  bind();
  auto try_now = [&]() -> api::Address {
    trees::StreamUse use(stream);
    if (trees::Recording* r = use.recording())
      return reinterpret_cast<api::Address>(r->allocate(bytes));
    if (void* placed = trees::Placement::take(bytes)) return reinterpret_cast<api::Address>(placed);
    return try_allocate(bytes, stream);
  };
  api::Address address = try_now();
  if (!address) {
    // What is on its way back counts as free once the device has come to it.
    {
      auto alone = trees::no_recording(*this);
      CU_TRY(*this, "waiting for the device", cuCtxSynchronize, context_);
    }
    trim();
    address = try_now();
  }
  if (!address)
    throw error(TN_OUT_OF_MEMORY,
                text("cuda:{} has no {} bytes left: {} in use, {} reserved", index_, bytes,
                     pool_figure(*this, pool_, api::pool_used_current),
                     pool_figure(*this, pool_, api::pool_reserved_current)));
  allocations_.fetch_add(1, std::memory_order_relaxed);
  return reinterpret_cast<void*>(address);
}

void Gpu::release(void* memory, size_t bytes, tn_stream* stream) noexcept {
  plugin::detail::quietly("cuda", [&] {
    if (trees::Arena* arena = trees::Arena::of(*this, memory)) {
      if (trees::Recording* r = trees::Recording::current()) r->note_free(memory);
      return void(arena->release(memory));
    }
    if (is_lost()) return;  // its memory went with it
    auto free_now = [&] {
      if (stream && stream->kept && stream->kept->keep(address_of(memory), bytes)) return;
      bind();
      CU_TRY(*this, "freeing memory", cuMemFreeAsync, reinterpret_cast<api::Address>(memory),
             handle_of(stream));
    };
    std::function<void()> now = std::ref(free_now);  // which asks for no memory
    while (!trees::Recording::defer_free(stream, memory, bytes, now)) continue;
  });
}

void Gpu::give_back_kept(tn_stream& stream) {
  if (!stream.kept) return;
  stream.kept->drain([&](api::Address block) {
    CU_TRY(*this, "freeing memory", cuMemFreeAsync, block, stream.handle);
  });
}

size_t Gpu::kept_bytes() {
  std::lock_guard lock(lists_);
  size_t out = 0;
  for (tn_stream* stream : streams_) out += stream->kept->bytes();
  return out;
}

void Gpu::trim() {
  bind();
  if (kept_bytes() > 0) {
    {
      std::lock_guard lock(lists_);
      for (tn_stream* stream : streams_) give_back_kept(*stream);
    }
    auto alone = trees::no_recording(*this);  // it is the pool's when the streams have come to it
    CU_TRY(*this, "waiting for the device", cuCtxSynchronize, context_);
  }
  trees::trim_arenas(*this);
  CU_TRY(*this, "giving memory back", cuMemPoolTrimTo, pool_, 0);
}

void Gpu::fill(tn_device_memory& out) {
  bind();
  out.allocated_bytes = pool_figure(*this, pool_, api::pool_used_current) - kept_bytes();
  out.reserved_bytes = pool_figure(*this, pool_, api::pool_reserved_current);
  out.peak_bytes = pool_figure(*this, pool_, api::pool_used_high);
  out.allocations = allocations_.load(std::memory_order_relaxed);
}

void Gpu::set(void* to, uint8_t byte, size_t bytes, tn_stream* stream) {
  bind();
  if (bytes == 0) return;
  trees::StreamUse use(stream);
  if (trees::Recording* r = use.recording()) return r->set(to, byte, bytes);
  CU_TRY(*this, text("filling {} bytes", bytes), cuMemsetD8Async,
         reinterpret_cast<api::Address>(to), byte, bytes, handle_of(stream));
}

void Gpu::copy(void* to, const void* from, size_t bytes, int32_t direction, tn_stream* stream) {
  bind();
  if (bytes == 0) return;
  trees::StreamUse use(stream);
  if (trees::Recording* r = use.recording()) return r->copy(to, from, bytes, direction);
  api::Stream order = handle_of(stream);
  if (direction == TN_COPY_H2D && !is_pinned(from, bytes))
    return staging_->to_device(to, from, bytes, order);
  if (direction == TN_COPY_D2H && !is_pinned(to, bytes)) {
    staging_->to_host(to, from, bytes, order);
    return tell_of(*flag_);
  }
  CU_TRY(*this, text("copying {} bytes", bytes), cuMemcpyAsync, reinterpret_cast<api::Address>(to),
         reinterpret_cast<api::Address>(from), bytes, order);
  if (direction != TN_COPY_D2D) note_pinned_use(direction == TN_COPY_H2D ? from : to, *this, order);
}

}  // namespace tenon::cuda
