// Recording a stream.
//
// Problem: a graph is recorded by calling the function that launches, on the caller's own stream,
// and what it does must be known well enough to run the graph again with other memory.
//
// Model: the driver captures the stream; each call of this plugin that enqueues something meanwhile
// is noted with its node, its parameters and the time, which counts events. Memory comes from the
// arena, with the times between which the function had it, so that an address in a parameter can be
// told apart from the same address earlier or later. Nodes that nobody noted are somebody else's:
// the count of the graph's nodes shows when they came.
//
// What cannot be recorded ends the capture there and then: waiting, and copies from and to memory
// of the host but for numbers among the inputs, which become fills with their value, and constants,
// whose copy the recording keeps. Frees of memory from before wait for the end.
#include "recording.h"

#include "../staging.h"

#include <tenon/device.h>
#include <tenon/plugin.hpp>
#include <tenon/thread_object.hpp>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstring>
#include <map>

namespace tenon::cuda::trees {

using plugin::error;
using plugin::text;

namespace {

/// Recordings under way, one a device.
struct Recordings {
  std::mutex entering;  // guards tn_stream::recording, deferred_ of each, and devices
  std::condition_variable left;
  std::map<int, std::unique_ptr<std::mutex>> devices;

  std::mutex& of(const Gpu& gpu) {
    std::lock_guard lock(entering);
    auto& device = devices[gpu.index()];
    if (!device) device = std::make_unique<std::mutex>();
    return *device;
  }
};

Recordings& recordings() {
  static auto* const all = new Recordings;
  return *all;
}

thread_local constinit Recording* mine = nullptr;
// By StreamUse::hold.
std::vector<tn_stream*>& held() { return ThreadObject<std::vector<tn_stream*>>::get(); }

bool is_recorded(const tn_stream* stream) {
  return stream &&
         std::atomic_ref(const_cast<tn_stream*>(stream)->recording).load(std::memory_order_acquire);
}

bool lies_in(const tn_tensor* t, const void* memory, size_t bytes) {
  Range storage{address_of(t->storage), address_of(t->storage) + t->storage_bytes};
  return t->storage && storage.holds(address_of(memory)) &&
         bytes <= storage.end - address_of(memory);
}
bool lies_in_any(const std::vector<const tn_tensor*>& tensors, const void* memory, size_t bytes) {
  return std::ranges::any_of(tensors,
                             [&](const tn_tensor* t) { return lies_in(t, memory, bytes); });
}

void put(std::vector<std::byte>& words, size_t at, const void* value, size_t bytes) {
  if (words.size() < at + bytes) words.resize(at + bytes);
  if (bytes) std::memcpy(words.data() + at, value, bytes);
}

}  // namespace

// ---- begin and end

Recording::Recording(Gpu& gpu, Arena& arena, tn_stream* stream, HostSources sources)
    : gpu_(gpu),
      arena_(arena),
      stream_(stream),
      sources_(std::move(sources)),
      alone_(recordings().of(gpu)) {
  gpu.bind();
  enter_stream();
  try {
    CU_TRY(gpu, "recording a stream", cuStreamBeginCapture, gpu.handle_of(stream),
           api::capture_relaxed);
  } catch (...) {
    leave_stream();
    for (auto [memory, bytes] : captured_.freed) gpu_.release(memory, bytes, stream_);
    throw;
  }
  is_capturing_ = true;
}

// Other threads wait from here on; what they have begun to enqueue comes first.
void Recording::enter_stream() {
  {
    std::lock_guard lock(recordings().entering);
    std::atomic_ref(stream_->recording).store(this, std::memory_order_seq_cst);
    mine = this;
  }
  while (std::atomic_ref(stream_->uses).load(std::memory_order_seq_cst) != 0)
    std::this_thread::yield();
}

// Other threads go on. What had to wait is the caller's now.
void Recording::leave_stream() {
  {
    std::lock_guard lock(recordings().entering);
    if (std::atomic_ref(stream_->recording).exchange(nullptr) == nullptr) return;
    mine = nullptr;
    captured_.freed.swap(deferred_);
  }
  recordings().left.notify_all();
}

void Recording::end_capture(api::Graph* graph) {
  gpu_.bind();
  CU_TRY(gpu_, "ending a recording", cuStreamEndCapture, stream_->handle, graph);
  is_capturing_ = false;
}

Recording::~Recording() {
  drop_capture();
  leave_stream();
  // Not taken over by finish(): the recording came to nothing.
  plugin::detail::quietly("cuda", [&] {
    for (auto [memory, bytes] : captured_.freed) gpu_.release(memory, bytes, stream_);
    if (captured_.graph && !gpu_.is_lost()) driver().cuGraphDestroy(captured_.graph);
    for (size_t i = 0; i < captured_.pinned.size(); ++i)
      free_pinned(captured_.pinned[i], captured_.pinned_bytes[i]);
  });
}

void Recording::give_up(Reason why) noexcept {
  if (!why_not_) why_not_ = std::move(why);
  drop_capture();
}

void Recording::drop_capture() noexcept {
  plugin::detail::quietly("cuda", [&] {
    api::Graph graph = nullptr;
    if (!std::exchange(is_capturing_, false) || gpu_.is_lost()) return;
    // An invalidated capture ends with an error, which is nothing new; a second call of one that
    // has ended is refused.
    api::Result ended = driver().cuStreamEndCapture(stream_->handle, &graph);
    if (ended != api::success) ended = driver().cuStreamEndCapture(stream_->handle, &graph);
    if (ended == api::success && graph) driver().cuGraphDestroy(graph);
  });
}

void Recording::refuse(Reason why) {
  give_up(std::move(why));
  require_running();
  std::abort();
}

void Recording::require_running() const {
  if (why_not_) throw error(TN_ABORTED, text("the recording has ended: {}", why_not_->sentence));
}

Captured Recording::finish() {
  require_running();
  see_foreign_work(0);
  captured_.nodes = known_nodes_;
  captured_.end = ++now_;
  end_capture(&captured_.graph);
  leave_stream();
  return std::exchange(captured_, {});
}

Recording* Recording::current() { return mine; }

bool Recording::defer_free(tn_stream* stream, void* memory, size_t bytes,
                           const std::function<void()>& free_now) {
  if (!stream || StreamUse::try_enter(stream)) {
    free_now();
    if (stream) StreamUse::leave(stream);
    return true;
  }
  std::lock_guard lock(recordings().entering);
  if (!stream->recording) return false;
  stream->recording->deferred_.emplace_back(memory, bytes);
  return true;
}

// ---- uses of a stream

// One word says that somebody records, another that somebody enqueues: who comes second sees it.
bool StreamUse::try_enter(tn_stream* stream) {
  std::atomic_ref uses(stream->uses);
  uses.fetch_add(1, std::memory_order_seq_cst);
  if (!is_recorded(stream)) return true;
  uses.fetch_sub(1, std::memory_order_seq_cst);
  return false;
}

void StreamUse::leave(tn_stream* stream) {
  std::atomic_ref(stream->uses).fetch_sub(1, std::memory_order_seq_cst);
}

// Whether there is something to leave: not a recording of the thread's own.
bool StreamUse::enter(tn_stream* stream) {
  if (Recording::is_under_way(stream) && stream) return false;
  if (mine) mine->give_up({"capture_failed", "the function works on several streams"});
  if (!stream) return false;
  if (std::ranges::find(held(), stream) != held().end()) {
    std::atomic_ref(stream->uses).fetch_add(1, std::memory_order_seq_cst);
    return true;
  }
  while (!try_enter(stream)) {
    std::unique_lock lock(recordings().entering);
    recordings().left.wait(lock, [&] { return !is_recorded(stream); });
  }
  return true;
}

StreamUse::StreamUse(tn_stream* stream) : stream_(stream) {
  if (enter(stream)) return;
  recording_ = stream ? mine : nullptr;
  stream_ = nullptr;  // nothing to leave
}

void StreamUse::hold(tn_stream* stream) {
  if (enter(stream)) held().push_back(stream);
}

void StreamUse::let_go(tn_stream* stream) noexcept {
  auto last = std::find(held().rbegin(), held().rend(), stream);
  if (last == held().rend()) return;
  held().erase(std::next(last).base());
  leave(stream);
}

StreamUse::~StreamUse() {
  if (stream_) leave(stream_);
}

// Who records waits for what this thread holds; for that long it holds nothing.
std::unique_lock<std::mutex> no_recording(Gpu& gpu) {
  if (mine) {
    mine->give_up({"data_dependent", "the function waits for the device"});
    return {};
  }
  for (tn_stream* stream : held()) StreamUse::leave(stream);
  std::unique_lock alone(recordings().of(gpu));
  for (tn_stream* stream : held()) std::atomic_ref(stream->uses).fetch_add(1);
  return alone;
}

// ---- what happens on the stream

// The nodes that the next one waits for.
std::vector<api::GraphNode> Recording::last_nodes() {
  int32_t status = 0;
  uint64_t id = 0;
  api::Graph graph = nullptr;
  const api::GraphNode* last = nullptr;
  const api::OpaqueGraphEdge* edges = nullptr;
  size_t n_last = 0, nodes = 0;
  try {
    CU_TRY(gpu_, "recording a stream", cuStreamGetCaptureInfo, stream_->handle, &status, &id,
           &graph, &last, &edges, &n_last);
    if (status != api::capture_active)
      throw error(TN_ABORTED, "the driver has ended the recording");
    CU_TRY(gpu_, "recording a stream", cuGraphGetNodes, graph, nullptr, &nodes);
  } catch (const error& e) {
    refuse({"capture_failed", e.what()});
  }
  nodes_ = nodes;
  return {last, last + n_last};
}

// Nodes beside `own` new ones are somebody else's and came since the last look.
void Recording::see_foreign_work(size_t own) {
  std::vector<api::GraphNode> last = last_nodes();
  if (own > 0 && last.size() == 1) captured_.notes.back().node = last[0];
  if (nodes_ > known_nodes_ + own) captured_.foreign.push_back({now_, false, {}});
  if (own > 0 && !captured_.notes.back().node)
    refuse({"capture_failed", "work of others joins the stream of the function"});
  known_nodes_ = nodes_;
}

uint32_t Recording::mark_place() {
  require_running();
  places_.push_back(last_nodes());
  return static_cast<uint32_t>(places_.size() - 1);
}

void Recording::continue_from(std::span<const uint32_t> places) {
  require_running();
  std::vector<api::GraphNode> nodes;
  for (uint32_t place : places) {
    if (place >= places_.size())
      throw error(TN_INVALID_ARGUMENT, "a recording goes on from a place that it has not marked");
    for (api::GraphNode node : places_[place])
      if (std::ranges::find(nodes, node) == nodes.end()) nodes.push_back(node);
  }
  try {
    CU_TRY(gpu_, "branching a recording", cuStreamUpdateCaptureDependencies, stream_->handle,
           nodes.data(), nullptr, nodes.size(), api::set_dependencies);
  } catch (const error& e) {
    refuse({"capture_failed", e.what()});
  }
}

void Recording::add(Note note) {
  captured_.notes.push_back(std::move(note));
  see_foreign_work(1);
}

void* Recording::allocate(size_t bytes) {
  require_running();
  see_foreign_work(0);
  try {
    void* memory = arena_.allocate(bytes);
    auto begin = address_of(memory);
    size_t room = (std::max(bytes, size_t{1}) + 511) / 512 * 512;
    captured_.allocations.push_back({{begin, begin + room}, bytes, ++now_, SIZE_MAX});
    return memory;
  } catch (const error& e) {
    refuse({"memory", e.what()});
  }
}

void Recording::note_free(const void* memory) noexcept {
  try {
    if (is_capturing_) see_foreign_work(0);
  } catch (const error&) {  // the recording has ended, which its owner is told
  }
  for (Allocation& a : captured_.allocations)
    if (a.range.begin == address_of(memory) && a.died == SIZE_MAX) a.died = ++now_;
}

void Recording::note_launch(tn_cuda_kernel& kernel, const tn_cuda_launch& how) {
  if (how.flags & TN_CUDA_LAUNCH_WAIT)
    refuse({"data_dependent", text("kernel {} is waited for", kernel.name)});
  Note note{.kind = Note::Kind::launch, .time = ++now_};
  note.kernel = &kernel;
  std::copy_n(how.grid, 3, note.grid);
  std::copy_n(how.block, 3, note.block);
  note.shared_bytes = how.shared_bytes;
  bool is_told = how.struct_size >= sizeof how && how.arg_info;  // an older caller tells nothing
  for (uint32_t i = 0; is_told && i < how.n_args; ++i) {
    const tn_cuda_arg& info = how.arg_info[i];
    auto at = static_cast<uint32_t>((note.words.size() + 7) / 8 * 8);
    put(note.words, at, how.args[i], info.bytes);
    note.parameters.push_back(at);
    if (info.kind == TN_CUDA_ARG_ADDRESS) note.addresses.push_back(at);
    if (info.kind == TN_CUDA_ARG_NUMBER || info.kind == TN_CUDA_ARG_SEED ||
        info.kind == TN_CUDA_ARG_OFFSET)
      note.numbers.push_back({at, info.bytes, info.source_bytes, info.source, info.kind});
    is_told = info.kind <= TN_CUDA_ARG_OFFSET;
  }
  if (!is_told && how.args) return;  // a node like any other's, seen at the next look
  add(std::move(note));
}

void Recording::copy(void* to, const void* from, size_t bytes, int32_t direction) {
  require_running();
  if (direction == TN_COPY_D2H)
    refuse({"data_dependent", text("{} bytes are copied to the host", bytes)});
  if (direction == TN_COPY_H2D) {
    if (lies_in_any(sources_.constants, from, bytes)) return copy_constant(to, from, bytes);
    if (lies_in_any(sources_.numbers, from, bytes) && std::has_single_bit(bytes) && bytes <= 16)
      return set_number(address_of(to), static_cast<const std::byte*>(from), bytes);
    refuse({"cpu_node", text("{} bytes that the CPU computes are copied to the device", bytes)});
  }
  CU_TRY(gpu_, text("copying {} bytes", bytes), cuMemcpyAsync, address_of(to), address_of(from),
         bytes, stream_->handle);
  Note note{.kind = Note::Kind::copy, .time = ++now_};
  note.count = bytes;
  put(note.words, 0, &to, sizeof to);
  put(note.words, 8, &from, sizeof from);
  note.addresses = {0, 8};
  add(std::move(note));
}

void Recording::set(void* to, uint8_t byte, size_t bytes) {
  require_running();
  CU_TRY(gpu_, text("filling {} bytes", bytes), cuMemsetD8Async, address_of(to), byte, bytes,
         stream_->handle);
  Note note{.kind = Note::Kind::set, .time = ++now_};
  note.count = bytes;
  uint32_t value = byte;
  put(note.words, 0, &to, sizeof to);
  put(note.words, 8, &value, sizeof value);
  note.addresses = {0};
  add(std::move(note));
}

// A fill with the number's own bits: up to four words, each a node.
void Recording::set_number(api::Address to, const std::byte* from, size_t bytes) {
  for (size_t at = 0; at < bytes; at += 4) {
    auto part = static_cast<uint16_t>(std::min<size_t>(bytes, 4));
    uint32_t value = 0;
    std::memcpy(&value, from + at, part);
    api::Address target = to + at;
    if (part == 4)
      CU_TRY(gpu_, "giving a number to the device", cuMemsetD32Async, target, value, 1,
             stream_->handle);
    else if (part == 2)
      CU_TRY(gpu_, "giving a number to the device", cuMemsetD16Async, target,
             static_cast<unsigned short>(value), 1, stream_->handle);
    else
      CU_TRY(gpu_, "giving a number to the device", cuMemsetD8Async, target,
             static_cast<unsigned char>(value), 1, stream_->handle);
    Note note{.kind = Note::Kind::set, .time = ++now_};
    note.count = 1;
    note.element_bytes = part;
    put(note.words, 0, &target, sizeof target);
    put(note.words, 8, &value, sizeof value);
    note.addresses = {0};
    note.numbers.push_back({8, 4, part, from + at, TN_CUDA_ARG_NUMBER});
    add(std::move(note));
  }
}

// The driver reads the source at each replay: it has to stay.
void Recording::copy_constant(void* to, const void* from, size_t bytes) {
  void* kept = allocate_pinned(bytes);
  captured_.pinned.push_back(kept);
  captured_.pinned_bytes.push_back(bytes);
  std::memcpy(kept, from, bytes);
  CU_TRY(gpu_, text("copying {} bytes to the device", bytes), cuMemcpyAsync, address_of(to),
         address_of(kept), bytes, stream_->handle);
  // Its target is that of a node which cannot be changed, as a library's.
  void* target[] = {to};
  note_foreign_work(target);
}

void Recording::note_foreign_work(std::span<void* const> addresses) {
  require_running();
  size_t before = captured_.foreign.size();
  see_foreign_work(0);
  if (captured_.foreign.size() == before) return;
  ForeignWork& work = captured_.foreign.back();
  work.is_declared = true;
  for (void* a : addresses) work.addresses.push_back(address_of(a));
  ++now_;
}

}  // namespace tenon::cuda::trees
