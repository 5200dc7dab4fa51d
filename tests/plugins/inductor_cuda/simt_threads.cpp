// Fibers: one stack a thread of a block, kept for the next block.
#include "simt_threads.h"

#include "shadow.h"

#include <ucontext.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <vector>

namespace simt {

namespace {

constexpr size_t stack_bytes = size_t{64} << 10;
constexpr uint32_t warp = 32;
constexpr size_t most_bytes = 64;  // of one access

class Block {
 public:
  Block(SimtKernel kernel, const Grid& grid, void* const* args, const MayTouch& may_touch)
      : kernel_(kernel), grid_(grid), args_(args), may_touch_(may_touch), threads_(grid.threads) {
    shared_.reset(static_cast<char*>(std::aligned_alloc(64, (grid.shared_bytes + 127) / 64 * 64)));
    for (uint32_t t = 0; t < grid.threads; ++t) prepare(t);
  }
  std::string run(uint32_t block);

 private:
  struct Thread {
    SimtThread seen{};
    ucontext_t context{};
    std::unique_ptr<char[]> stack;
    bool is_done = false;
    uint32_t given = 0;     // to a shuffle
    uint32_t barriers = 0;  // that it has met
    bool shuffles = false;  // waits at a shuffle
  };
  void prepare(uint32_t t);
  void start(Thread& thread);
  void run_one(uint32_t t);
  void wait(Thread& thread) { swapcontext(&thread.context, &scheduler_); }
  void fail(const std::string& why) {
    if (problem_.empty()) problem_ = why;
  }
  static Block& of(SimtThread* t) { return *static_cast<Block*>(t->runner); }
  Thread& thread(SimtThread* t) { return threads_[t->thread]; }
  static void enter(unsigned low, unsigned high);
  static void barrier(SimtThread* t);
  static uint32_t shuffle(SimtThread* t, uint32_t value, uint32_t mask);
  static void* global(SimtThread* t, void* address, uint64_t bytes, uint32_t use);
  static void* local(SimtThread* t, void* address, uint64_t bytes, uint32_t use);
  /// The address, or where wrong accesses go.
  void* used(Thread& thread, void* address, uint64_t bytes, uint32_t use, bool is_memory,
             Shadow& shadow);

  SimtKernel kernel_;
  const Grid& grid_;
  void* const* args_;
  const MayTouch& may_touch_;
  std::vector<Thread> threads_;
  struct Free {
    void operator()(char* p) const { std::free(p); }
  };
  std::unique_ptr<char, Free> shared_;
  ucontext_t scheduler_{};
  uint32_t current_ = 0;
  std::string problem_;
  Shadow global_, local_;
};

void Block::prepare(uint32_t t) {
  SimtThread& seen = threads_[t].seen;
  seen.thread = t;
  seen.shared = shared_.get();
  seen.runner = this;
  seen.barrier = barrier;
  seen.shuffle = shuffle;
  seen.global = global;
  seen.local = local;
  if (grid_.cooperates) threads_[t].stack.reset(new char[stack_bytes]);
}

void Block::enter(unsigned low, unsigned high) {
  auto* self = reinterpret_cast<Block*>(uintptr_t{low} | uintptr_t{high} << 32);
  Thread& thread = self->threads_[self->current_];
  self->kernel_(&thread.seen, self->args_);
  thread.is_done = true;
  while (true) self->wait(thread);
}

void Block::start(Thread& thread) {
  thread.is_done = false;
  getcontext(&thread.context);
  thread.context.uc_stack.ss_sp = thread.stack.get();
  thread.context.uc_stack.ss_size = stack_bytes;
  auto self = reinterpret_cast<uintptr_t>(this);
  makecontext(&thread.context, reinterpret_cast<void (*)()>(enter), 2, static_cast<unsigned>(self),
              static_cast<unsigned>(self >> 32));
}

void Block::run_one(uint32_t t) {
  current_ = t;
  if (!threads_[t].is_done) swapcontext(&scheduler_, &threads_[t].context);
}

// Each round takes every thread to where it waits next. All of a block, or of a warp, have to wait
// at the same kind of place.
std::string Block::run(uint32_t block) {
  for (Thread& t : threads_) t.seen.block = block, t.barriers = 0;
  local_.forget();
  std::fill_n(shared_.get(), grid_.shared_bytes, static_cast<char>(0xff));
  bool is_backwards = block % 2 == 1;
  auto number = [&](uint32_t i) { return is_backwards ? grid_.threads - 1 - i : i; };
  if (!grid_.cooperates) {
    for (uint32_t i = 0; i < grid_.threads; ++i) kernel_(&threads_[number(i)].seen, args_);
    return problem_;
  }
  for (Thread& t : threads_) start(t);
  for (bool is_done = false; !is_done && problem_.empty();) {
    for (uint32_t i = 0; i < grid_.threads; ++i) run_one(number(i));
    is_done = threads_[0].is_done;
    for (const Thread& t : threads_)
      if (t.is_done != is_done || t.shuffles != threads_[0].shuffles)
        fail("threads of a block wait at different places");
  }
  return problem_;
}

void Block::barrier(SimtThread* t) {
  Block& block = of(t);
  block.thread(t).shuffles = false;
  block.wait(block.thread(t));
  ++block.thread(t).barriers;
}

// The second wait: nobody gives the next value before all have read this one.
uint32_t Block::shuffle(SimtThread* t, uint32_t value, uint32_t mask) {
  Block& block = of(t);
  Thread& own = block.thread(t);
  own.given = value;
  own.shuffles = true;
  block.wait(own);
  uint32_t from = (t->thread ^ mask);
  bool is_there = from / warp == t->thread / warp && from < block.grid_.threads;
  if (!is_there) block.fail("a shuffle reads a thread that is not there");
  uint32_t out = is_there ? block.threads_[from].given : 0;
  block.wait(own);
  return out;
}

void* Block::used(Thread& thread, void* address, uint64_t bytes, uint32_t use, bool is_memory,
                  Shadow& shadow) {
  bool is_aligned = reinterpret_cast<uintptr_t>(address) % bytes == 0;
  if (is_aligned && is_memory) {
    const SimtThread& seen = thread.seen;
    std::string race = shadow.use(address, bytes, static_cast<Use>(use),
                                  {seen.thread, seen.block, thread.barriers});
    if (!race.empty()) fail(race);
    return address;
  }
  fail(std::string(use ? "writes " : "reads ") + std::to_string(bytes) + " bytes at " +
       std::to_string(reinterpret_cast<uintptr_t>(address)) +
       (is_aligned ? ", outside of every buffer" : ", which is not aligned"));
  alignas(64) thread_local char nothing[most_bytes];
  std::fill_n(nothing, most_bytes, '\0');
  return nothing;
}

void* Block::global(SimtThread* t, void* address, uint64_t bytes, uint32_t use) {
  Block& block = of(t);
  return block.used(block.thread(t), address, bytes, use, block.may_touch_(address, bytes),
                    block.global_);
}

void* Block::local(SimtThread* t, void* address, uint64_t bytes, uint32_t use) {
  Block& block = of(t);
  const char *at = static_cast<char*>(address), *begin = block.shared_.get();
  bool is_inside = at >= begin && at + bytes <= begin + block.grid_.shared_bytes;
  return block.used(block.thread(t), address, bytes, use, is_inside, block.local_);
}

}  // namespace

std::string run(SimtKernel kernel, const Grid& grid, void* const* args, const MayTouch& may_touch) {
  Block threads(kernel, grid, args, may_touch);
  for (uint32_t block = 0; block < grid.blocks; ++block)
    if (std::string problem = threads.run(block); !problem.empty())
      return problem + " (block " + std::to_string(block) + ")";
  return "";
}

}  // namespace simt
