// Pinned memory, and copies between a GPU and memory that is not.
#pragma once

#include "api/driver.h"

#include <array>
#include <cstddef>
#include <mutex>

namespace tenon::cuda {

class Gpu;

/// Pinned memory for the program, reused by size; any device may copy from and to it.
void* allocate_pinned(size_t bytes);
void free_pinned(void* memory, size_t bytes) noexcept;
/// 16 bytes of it, the calling thread's own until it ends.
void* pinned_slot();
/// Whether all of it is such memory.
bool is_pinned(const void* memory, size_t bytes);
/// Tells that work that is on the stream by now uses such memory: it is not given to another until
/// that is done.
void note_pinned_use(const void* memory, Gpu& gpu, api::Stream stream);

/// Copies from and to pageable memory in chunks through two pinned buffers, the next one being
/// filled while one is under way: some 50 GB/s where the driver's own staging has 6 to 8. When a
/// copy returns, the pageable side is done with. Threads: one copy at a time.
class Staging {
 public:
  explicit Staging(Gpu& gpu) : gpu_(gpu) {}
  Staging(const Staging&) = delete;

  void to_device(void* to, const void* from, size_t bytes, api::Stream stream);
  void to_host(void* to, const void* from, size_t bytes, api::Stream stream);

 private:
  struct Buffer {
    void* memory = nullptr;
    api::Event done = nullptr;  // behind the last copy from or to it
    bool busy = false;
  };
  void prepare();
  void wait_for(Buffer& buffer);

  Gpu& gpu_;
  std::mutex copying_;
  std::array<Buffer, 2> buffers_;
};

}  // namespace tenon::cuda
