// A stream whose work is recorded: what a function launches, allocates, frees and copies meanwhile.
#pragma once

#include "../modules.h"
#include "arena.h"

#include <functional>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

namespace tenon::cuda::trees {

/// Why something is not recorded: an id of tn_cuda_skip, and a sentence.
struct Reason {
  std::string id, sentence;
};

/// A node of a recording that is known: a launch, a copy on the device, or a fill.
struct Note {
  enum class Kind { launch, copy, set };
  /// Parameters that hold what was read from host memory, or a draw.
  struct Number {
    uint32_t at;  ///< in `words`
    uint16_t bytes, source_bytes;
    const void* source;  ///< null: see `kind`
    uint32_t kind;       ///< TN_CUDA_ARG_NUMBER, _SEED, _OFFSET
  };

  Kind kind;
  size_t time;
  api::GraphNode node = nullptr;
  tn_cuda_kernel* kernel = nullptr;
  uint32_t grid[3] = {}, block[3] = {}, shared_bytes = 0;
  size_t count = 0;                  ///< bytes of a copy, elements of a fill
  uint32_t element_bytes = 1;        ///< of a fill
  std::vector<std::byte> words;      ///< launch: the parameters; copy: to, from; fill: to, value
  std::vector<uint32_t> parameters;  ///< where each begins in `words`
  std::vector<uint32_t> addresses;   ///< where in `words` there are addresses
  std::vector<Number> numbers;
};

/// Memory that the function asked for, and when it had it.
struct Allocation {
  Range range;
  size_t bytes;  ///< as asked for
  size_t born, died;
};

/// Work of somebody else's: from when on it may touch what then lives.
struct ForeignWork {
  size_t time;
  bool is_declared;
  std::vector<api::Address> addresses;  ///< declared: what it touches
};

/// Draws of random numbers, in order.
struct Draw {
  uint64_t blocks, seed, offset;
};

/// What a recording consists of.
struct Captured {
  api::Graph graph = nullptr;
  std::vector<Note> notes;
  std::vector<Allocation> allocations;
  std::vector<ForeignWork> foreign;
  std::vector<Draw> draws;
  std::vector<void*> pinned;  ///< copies of constants, {memory, bytes} one after the other
  std::vector<size_t> pinned_bytes;
  /// Memory of others that went back meanwhile: to be freed behind the first run.
  std::vector<std::pair<void*, size_t>> freed;
  size_t nodes = 0, end = 0;  ///< how many there are; the time behind the last one
};

/// Host memory that copies to the device may come from.
struct HostSources {
  std::vector<const tn_tensor*> numbers;    ///< change from call to call
  std::vector<const tn_tensor*> constants;  ///< never do
};

/// One at a time a device. While it lives, the stream's work by other threads waits.
class Recording {
 public:
  /// Begins. Throws what the driver says.
  Recording(Gpu& gpu, Arena& arena, tn_stream* stream, HostSources sources);
  /// Ends it, whatever there is, and frees what had to wait.
  ~Recording();
  Recording(const Recording&) = delete;

  /// Whether the calling thread records on any stream.
  static bool is_under_way() { return current() != nullptr; }
  static bool is_under_way(const tn_stream* stream) {
    return current() && current()->stream_ == stream;
  }
  static Recording* current();
  /// Takes memory whose stream is being recorded, to be freed behind the recording; false where it
  /// is not, and nobody begins until free_now() has run.
  static bool defer_free(tn_stream* stream, void* memory, size_t bytes,
                         const std::function<void()>& free_now);

  /// Throws where it has been given up.
  void require_running() const;
  void* allocate(size_t bytes);
  void note_free(const void* memory) noexcept;
  void note_launch(tn_cuda_kernel& kernel, const tn_cuda_launch& how);
  void copy(void* to, const void* from, size_t bytes, int32_t direction);
  void set(void* to, uint8_t byte, size_t bytes);
  void note_foreign_work(std::span<void* const> addresses);
  /// Behind what came last.
  uint32_t mark_place();
  /// What comes next waits for what came before these places, and for nothing else.
  void continue_from(std::span<const uint32_t> places);
  void note_draw(Draw draw) { captured_.draws.push_back(draw); }

  /// Ends the capture: the stream is an ordinary one again, what is launched now is an error.
  void give_up(Reason why) noexcept;
  /// give_up(), and an error for who asked for it.
  [[noreturn]] void refuse(Reason why);
  const std::optional<Reason>& why_not() const { return why_not_; }
  const std::vector<Draw>& draws() const { return captured_.draws; }

  /// Ends with success, or throws the error that it was given up with.
  Captured finish();

 private:
  void see_foreign_work(size_t own);
  std::vector<api::GraphNode> last_nodes();
  void add(Note note);
  void set_number(api::Address to, const std::byte* from, size_t bytes);
  void copy_constant(void* to, const void* from, size_t bytes);
  void end_capture(api::Graph* graph);
  void drop_capture() noexcept;
  void enter_stream();
  void leave_stream();

  Gpu& gpu_;
  Arena& arena_;
  tn_stream* stream_;
  HostSources sources_;
  std::unique_lock<std::mutex> alone_;
  std::thread::id thread_ = std::this_thread::get_id();
  Captured captured_;
  size_t nodes_ = 0, known_nodes_ = 0, now_ = 0;     // nodes: when they were asked for last
  std::vector<std::vector<api::GraphNode>> places_;  // the nodes that each is behind
  bool is_capturing_ = false;
  std::optional<Reason> why_not_;
  std::vector<std::pair<void*, size_t>> deferred_;  // guarded by the lock of all recordings
};

/// Around each piece of work that is enqueued on a stream: a recording begins when there is none,
/// and work of other threads waits for its end. A thread that uses another stream than the one it
/// records gives that up. One at a time a thread, and nothing that waits for a recording inside: it
/// would wait for itself. Threads: any.
class StreamUse {
 public:
  explicit StreamUse(tn_stream* stream);
  ~StreamUse();
  StreamUse(const StreamUse&) = delete;
  /// The calling thread's own recording of the stream, or null.
  Recording* recording() const { return recording_; }

  /// The same for work that others enqueue, until let_go(). Uses inside wait for nobody, since whoever
  /// wants to record waits for this one.
  static void hold(tn_stream* stream);
  static void let_go(tn_stream* stream) noexcept;

 private:
  friend class Recording;
  friend std::unique_lock<std::mutex> no_recording(Gpu& gpu);
  static bool enter(tn_stream* stream);
  static bool try_enter(tn_stream* stream);
  static void leave(tn_stream* stream);

  tn_stream* stream_;
  Recording* recording_ = nullptr;
};

/// Held by who waits for all of a device: that cannot be while something is recorded there.
std::unique_lock<std::mutex> no_recording(Gpu& gpu);

}  // namespace tenon::cuda::trees
