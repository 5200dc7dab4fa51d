// Graphs of the double: what a stream was given while it was captured, each with what it waits for.
#pragma once

#include "code.h"
#include "fake_cuda.h"
#include "memory.h"

#include <map>
#include <memory>
#include <set>
#include <vector>

namespace fake_cuda {

struct World;

/// Work of others, dropped once.
struct Foreign {
  FakeCudaWork work;
  explicit Foreign(const FakeCudaWork& w) : work(w) {}
  Foreign(const Foreign&) = delete;
  ~Foreign() { work.drop(work.self); }
};

/// A piece of work that can be part of a graph: a launch, a copy, a fill or that of a library.
struct Node {
  enum class Kind { launch, copy, set, foreign } kind;
  std::shared_ptr<const Launch> launch;
  std::shared_ptr<const Foreign> foreign;
  Address to = 0, from = 0;
  size_t count = 0;  // bytes of a copy, elements of a fill
  unsigned value = 0, element_bytes = 1;

  Result run(World& w) const;
};

using NodePtr = std::shared_ptr<const Node>;

/// Handles are the addresses of entries.
using Handle = const NodePtr*;
struct GraphState {
  std::vector<std::unique_ptr<NodePtr>> nodes;
  std::map<Handle, std::vector<Handle>> after;  // what each node waits for
  std::vector<Handle> last;                     // while it is captured: what the next one waits for
};
struct ExecutableState {
  std::vector<NodePtr> nodes;
  std::map<Handle, size_t> by_handle;
  std::vector<std::vector<size_t>> after;
};

/// Graphs and executables that are alive.
struct Graphs {
  std::set<std::unique_ptr<GraphState>> graphs;
  std::map<ExecutableState*, std::unique_ptr<ExecutableState>> executables;

  GraphState* find(const void* handle) const;
  bool erase(const void* handle);
};

}  // namespace fake_cuda
