// Engine, streams, scratch memory, and running a primitive.
#include "engine.h"

#include <array>
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
  thread_local std::array<Block, static_cast<size_t>(Scratch::count)> blocks;
  constexpr size_t alignment = 64;
  Block& block = blocks[static_cast<size_t>(purpose)];
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

namespace {

const dnnl::stream& stream() {
  thread_local const dnnl::stream of_thread(engine());
  return of_thread;
}

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

Reorder::Reorder(const Desc& from, const Desc& to) : from(from), to(to) {
  dnnl::reorder::primitive_desc pd(engine(), from, engine(), to, attributes());
  scratchpad = pd.scratchpad_desc();
  run = dnnl::reorder(pd);
}

void Reorder::operator()(const void* source, void* result) const {
  execute(run, scratchpad, {{DNNL_ARG_FROM, from, source}, {DNNL_ARG_TO, to, result}});
}

}  // namespace onednn
