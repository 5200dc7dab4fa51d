// Engine, streams, scratch memory, and running a primitive.
#include "engine.h"

#include <tenon/thread_object.hpp>

#include <array>
#include <atomic>
#include <memory>
#include <string_view>

// Of libgomp, which oneDNN runs on; <omp.h> belongs to the compiler and may be another library's.
extern "C" {
void omp_set_num_threads(int);
int omp_get_max_threads(void);
}

namespace onednn {

const dnnl::engine& engine() {
  static const auto* the_engine = new dnnl::engine(dnnl::engine::kind::cpu, 0);  // leaked
  return *the_engine;
}

OneThread::OneThread() : before_(omp_get_max_threads()) {
  if (before_ != 1) omp_set_num_threads(1);
}

OneThread::~OneThread() {
  if (before_ != 1) omp_set_num_threads(before_);
}

void* scratch(Scratch purpose, size_t bytes) {
  struct Block {
    std::unique_ptr<std::byte[]> memory;
    size_t bytes = 0;
  };
  using Blocks = std::array<Block, static_cast<size_t>(Scratch::count)>;
  constexpr size_t alignment = 64;
  Block& block = tenon::ThreadObject<Blocks>::get()[static_cast<size_t>(purpose)];
  if (block.bytes < bytes) {
    block.memory = nullptr;  // first, so that both blocks are never held at once
    block.bytes = 0;
    block.memory.reset(new std::byte[bytes + alignment]);
    block.bytes = bytes;
  }
  void* at = block.memory.get();
  size_t room = block.bytes + alignment;
  return at ? std::align(alignment, block.bytes, at, room) : nullptr;
}

dnnl::primitive_attr attributes() {
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attr;
}

bool is_reference(const dnnl::primitive_desc_base& pd) {
  return std::string_view(pd.impl_info_str()).find("ref") != std::string_view::npos;
}

bool emulates_bf16(const dnnl::primitive_desc_base& pd) {
  std::string_view name = pd.impl_info_str();
  return name.find("avx512_core_bf16") == name.npos && name.find("amx") == name.npos;
}

// The description is a plain struct, zeroed when made. FNV-1a.
uint64_t fingerprint(const Desc& layout) {
  const auto* bytes = reinterpret_cast<const unsigned char*>(&layout.data);
  uint64_t hash = 14695981039346656037u;
  for (size_t i = 0; i < sizeof layout.data; ++i) hash = (hash ^ bytes[i]) * 1099511628211u;
  return hash;
}

Desc as_bytes(const Desc& layout) {
  return {{static_cast<int64_t>(layout.get_size())},
          dnnl::memory::data_type::u8,
          dnnl::memory::format_tag::x};
}

namespace {

struct Stream : dnnl::stream {
  Stream() : dnnl::stream(engine()) {}
};
const dnnl::stream& stream() { return tenon::ThreadObject<Stream>::get(); }

}  // namespace

// Through the C interface: the C++ one fills a hash table at each call.
void execute(const dnnl::primitive& p, const Desc& scratchpad,
             std::initializer_list<Argument> args) {
  constexpr size_t most = 6;
  dnnl_exec_arg_t list[most];
  std::array<dnnl::memory, most> held;
  int n = 0;
  auto add = [&](int index, const Desc& desc, const void* data) {
    held[n] = dnnl::memory(desc, engine(), const_cast<void*>(data));
    list[n] = {index, held[n].get()};
    ++n;
  };
  for (const Argument& a : args)
    if (a.data) add(a.index, a.desc, a.data);
  if (size_t bytes = scratchpad.get_size())
    add(DNNL_ARG_SCRATCHPAD, scratchpad, scratch(Scratch::library, bytes));
  dnnl::error::wrap_c_api(dnnl_primitive_execute(p.get(), stream().get(), n, list),
                          "oneDNN could not run a primitive");
}

struct Call::Arguments {
  std::vector<dnnl::memory> memories;
  std::vector<dnnl_exec_arg_t> list;
  std::atomic_flag busy;

  void fill(const std::vector<Slot>& slots) {
    for (const Slot& slot : slots) {
      memories.emplace_back(slot.desc, engine(), nullptr);
      list.push_back({slot.index, memories.back().get()});
    }
  }
  void set(size_t i, const void* address) {
    void* before = nullptr;
    dnnl_memory_get_data_handle(list[i].memory, &before);
    if (before == address) return;
    dnnl::error::wrap_c_api(dnnl_memory_set_data_handle(list[i].memory, const_cast<void*>(address)),
                            "oneDNN could not take an address");
  }
};

struct Call::Held {
  dnnl::primitive run;
  std::vector<Slot> slots;        // those that are there, then the scratchpad
  std::vector<size_t> positions;  // of these among the addresses of a call
  size_t scratch_bytes;
  std::vector<Arguments> sets;

  void start(Arguments& arguments, std::initializer_list<const void*> addresses) const {
    for (size_t i = 0; i < positions.size(); ++i) arguments.set(i, addresses.begin()[positions[i]]);
    if (scratch_bytes) arguments.set(positions.size(), scratch(Scratch::library, scratch_bytes));
    dnnl::error::wrap_c_api(
        dnnl_primitive_execute(run.get(), stream().get(), static_cast<int>(arguments.list.size()),
                               arguments.list.data()),
        "oneDNN could not run a primitive");
  }
};

Call::Call(const dnnl::primitive& run, const Desc& scratchpad, std::vector<Slot> slots,
           int64_t sets)
    : held_(new Held{
          run, {}, {}, scratchpad.get_size(), std::vector<Arguments>(static_cast<size_t>(sets))}) {
  for (size_t i = 0; i < slots.size(); ++i) {
    if (slots[i].desc.is_zero()) continue;
    held_->positions.push_back(i);
    held_->slots.push_back(std::move(slots[i]));
  }
  if (held_->scratch_bytes) held_->slots.push_back({DNNL_ARG_SCRATCHPAD, scratchpad});
  for (Arguments& a : held_->sets) a.fill(held_->slots);
}

void Call::operator()(std::initializer_list<const void*> addresses) const {
  struct Release {
    std::atomic_flag& flag;
    ~Release() { flag.clear(std::memory_order_release); }
  };
  for (Arguments& a : held_->sets) {
    if (a.busy.test_and_set(std::memory_order_acquire)) continue;
    Release at_end{a.busy};
    held_->start(a, addresses);
    return;
  }
  Arguments once;  // more threads than were expected
  once.fill(held_->slots);
  held_->start(once, addresses);
}

Reorder::Reorder(const Desc& from, const Desc& to, int64_t sets) : from(from), to(to) {
  dnnl::reorder::primitive_desc pd(engine(), from, engine(), to, attributes());
  run = Call(dnnl::reorder(pd), pd.scratchpad_desc(), {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}},
             sets);
}

}  // namespace onednn
