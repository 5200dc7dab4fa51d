// What is told of a unit, as plain data.
#pragma once

#include "report/html.h"
#include "report/page_graph.h"

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tenon::report {

enum class UnitKind : uint8_t { callable, model, backward };

/// Counts of calls.
struct UnitFigures {
  int64_t calls = 0, hits = 0, compiles = 0, replays = 0, eager_calls = 0, graph_breaks = 0,
          after_limit = 0, suppressed_errors = 0;
  UnitFigures& operator+=(const UnitFigures& other);
};

/// Different texts in the order in which they came first, each with its count; the first 64 only.
class CountedTexts {
 public:
  void add(std::string_view text);
  const std::vector<std::pair<std::string, int64_t>>& counts() const { return counts_; }
  int64_t n_others() const { return n_others_; }
  int64_t total() const;

 private:
  std::vector<std::pair<std::string, int64_t>> counts_;
  int64_t n_others_ = 0;
};

/// The newest of many.
template <class T, size_t most>
struct Newest {
  std::vector<T> items;  ///< oldest first
  int64_t n = 0;         ///< of all

  void add(T item) {
    ++n;
    if (items.size() == most) items.erase(items.begin());
    items.push_back(std::move(item));
  }
};

/// A compiled version of a callable.
struct VersionFacts {
  std::string id, guards, regime;
  size_t n_nodes = 0;
  double at_s = 0;  ///< since the report began
};

struct RecompileFacts {
  std::string why;
  double at_s = 0;
};

/// A value that the forward half keeps for the backward half.
struct SavedValue {
  std::string name, type, op;  ///< op: that makes it; empty for inputs
  int64_t bytes = 0;
  std::string why;  ///< it is kept rather than computed again
};

/// Where a joint graph was cut.
struct SavedFacts {
  std::string id;
  std::vector<SavedValue> values;             ///< large ones first
  size_t n_more = 0;                          ///< that are left out
  int64_t bytes = 0;                          ///< of all but inputs
  std::map<std::string, int64_t> recomputed;  ///< ops that run in both halves
  size_t n_forward = 0, n_backward = 0;       ///< nodes of the halves
};

/// Lines in which code tells what has become of it so far.
using Told = std::vector<std::string>;

/// How often code ran and how long.
struct CodeTime {
  std::atomic<int64_t> calls{0}, ns{0};
  std::mutex asking;          ///< guards the two below
  std::function<Told()> ask;  ///< while the code lives
  Told told;                  ///< its last words
};

/// A kernel or a library call, as the backend tells of it.
struct KernelFacts {
  std::string kind, name;
  int64_t bytes = 0, flops = 0;
};

/// Nodes that somebody else runs for the backend, or a whole graph.
struct ElsewhereFacts {
  std::string run_by, op, why;
  size_t n_nodes = 1;
};

/// A graph that a backend has compiled.
struct GraphFacts {
  std::string id, stage, backend;
  double compile_ms = 0;
  PageGraph graph;
  std::vector<KernelFacts> kernels;
  size_t n_kernels = 0;  ///< of all
  std::vector<ElsewhereFacts> elsewhere;
  std::vector<std::pair<std::string, std::string>> statistics, texts;  ///< name and value or text
  std::vector<MemoryBlock> buffers;
  int64_t calls = 0, ns = 0;  ///< of its code
  Told told;                  ///< by its code, such as what was recorded of it
};

struct WorkTime {
  int64_t ns = 0, n = 0;
};

struct UnitFacts {
  UnitKind kind = UnitKind::callable;
  std::string name;
  int64_t n_joined = 1;  ///< callables of that name
  UnitFigures figures;
  std::vector<WorkTime> times;  ///< by Work
  CountedTexts breaks, eager;
  CountedTexts cache;  ///< what the cache on disk said
  Newest<RecompileFacts, 32> recompiles;
  Newest<VersionFacts, 16> versions;
  Newest<SavedFacts, 8> saved;
  std::vector<GraphFacts> graphs;
  int64_t n_graphs = 0;  ///< of all, also those that are left out
};

}  // namespace tenon::report
