// Changing nodes of an instantiated graph: some 0.3 us each, the launch behind it costs no more.
// A recording of one kernel is a graph, too: that takes the driver 1.8 us, a launch 3.4 (H200).
#include "graph.h"

#include "../staging.h"

#include <tenon/plugin.hpp>

#include <atomic>
#include <cstring>

namespace tenon::cuda::trees {

namespace {

std::atomic<bool> moves_copies{true};

}  // namespace

bool can_move_copies() { return moves_copies.load(std::memory_order_relaxed); }

Graph::Graph(Gpu& gpu, Captured captured)
    : gpu_(gpu), captured_(std::move(captured)), is_changed_(captured_.notes.size()) {
  for (const Note& n : captured_.notes)
    if (n.kernel) retain_module(*n.kernel->module);
}

Graph::~Graph() {
  plugin::detail::quietly("cuda", [&] {
    for (const Note& n : captured_.notes)
      if (n.kernel) release_module(n.kernel->module);
    for (size_t i = 0; i < captured_.pinned.size(); ++i)
      free_pinned(captured_.pinned[i], captured_.pinned_bytes[i]);
    if (gpu_.is_lost()) return;
    gpu_.bind();
    // A launch that is under way ends first.
    if (executable_) CU_TRY(gpu_, "giving a graph back", cuGraphExecDestroy, executable_);
    CU_TRY(gpu_, "giving a graph back", cuGraphDestroy, captured_.graph);
  });
}

void Graph::instantiate(std::vector<PatchPoint> points, std::vector<api::Address> bases) {
  points_ = std::move(points);
  bases_ = std::move(bases);
  first_.assign(bases_.size() + 1, 0);
  for (const PatchPoint& p : points_) ++first_[p.place + 1];
  for (size_t i = 1; i < first_.size(); ++i) first_[i] += first_[i - 1];
  gpu_.bind();
  CU_TRY(gpu_, "making a graph of a recording", cuGraphInstantiateWithFlags, &executable_,
         captured_.graph, 0);
  prepare();
}

// Words stay where they are from here on, so a change writes them and asks for no memory.
void Graph::prepare() {
  prepared_.resize(captured_.notes.size());
  for (size_t i = 0; i < prepared_.size(); ++i) {
    const Note& note = captured_.notes[i];
    if (note.kind != Note::Kind::launch) continue;
    Prepared& p = prepared_[i];
    for (uint32_t at : note.parameters)
      p.parameters.push_back(const_cast<std::byte*>(note.words.data()) + at);
    p.node.function = note.kernel->handle;
    std::copy_n(note.grid, 3, p.node.grid);
    std::copy_n(note.block, 3, p.node.block);
    p.node.shared_bytes = note.shared_bytes;
    p.node.parameters = p.parameters.data();
  }
}

void Graph::touch(uint32_t node) {
  if (is_changed_[node]) return;
  is_changed_[node] = true;
  changed_.push_back(node);
}

void Graph::move(uint32_t place, api::Address to) {
  if (bases_[place] == to) return;
  bases_[place] = to;
  for (uint32_t i = first_[place]; i < first_[place + 1]; ++i) {
    const PatchPoint& p = points_[i];
    api::Address address = to + static_cast<api::Address>(p.offset);
    std::memcpy(captured_.notes[p.node].words.data() + p.at, &address, sizeof address);
    touch(p.node);
  }
}

void Graph::write(uint32_t node, uint32_t at, const void* value, size_t bytes) {
  std::byte* there = captured_.notes[node].words.data() + at;
  if (std::memcmp(there, value, bytes) == 0) return;
  std::memcpy(there, value, bytes);
  touch(node);
}

namespace {

template <class T>
T word(const Note& note, size_t at) {
  T value;
  std::memcpy(&value, note.words.data() + at, sizeof value);
  return value;
}

api::CopyNode copy_of(const Note& note) {
  api::CopyNode out;
  out.to.device = word<api::Address>(note, 0);
  out.from.device = word<api::Address>(note, 8);
  out.bytes = note.count;
  out.from.pitch = out.to.pitch = note.count;
  return out;
}

api::SetNode set_of(const Note& note) {
  api::SetNode out;
  out.to = word<api::Address>(note, 0);
  out.value = word<uint32_t>(note, 8);
  out.element_bytes = note.element_bytes;
  out.elements = note.count;
  return out;
}

}  // namespace

void Graph::update(uint32_t changed) {
  const Note& note = captured_.notes[changed];
  if (note.kind == Note::Kind::launch) {
    CU_TRY(gpu_, "changing a recorded launch", cuGraphExecKernelNodeSetParams, executable_,
           note.node, &prepared_[changed].node);
    return;
  }
  api::Result result;
  if (note.kind == Note::Kind::copy) {
    api::CopyNode node = copy_of(note);
    result = driver().cuGraphExecMemcpyNodeSetParams(executable_, note.node, &node, gpu_.context());
  } else {
    api::SetNode node = set_of(note);
    result = driver().cuGraphExecMemsetNodeSetParams(executable_, note.node, &node, gpu_.context());
  }
  if (result != api::success) moves_copies.store(false, std::memory_order_relaxed);
  check(gpu_, result, "cuGraphExec...NodeSetParams", "changing a recorded copy");
}

void Graph::launch(tn_stream* stream) {
  gpu_.bind();
  for (uint32_t node : changed_) {
    update(node);
    is_changed_[node] = false;
    ++patches_;
  }
  changed_.clear();
  CU_TRY(gpu_, "running a recording", cuGraphLaunch, executable_, gpu_.handle_of(stream));
}

}  // namespace tenon::cuda::trees
