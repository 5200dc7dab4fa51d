// The code of eager ops on devices: at most so many, those that were not used for longest go.
#pragma once

#include "backend/single_op/graph.h"
#include "core/sym/sym_program.h"
#include "graph/artifact.h"

#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

namespace tenon {

/// Code for the calls of one key, as far as its conditions hold. Threads: read-only.
struct SingleOp {
  std::shared_ptr<Artifact> code;
  std::vector<ResultShape> results;
  SymProgram conditions;  ///< over the numbers of a call
  size_t n_outputs = 0;
  bool by_value = false;  ///< nothing but the note that numbers belong into the graph
};
using SingleOpPtr = std::shared_ptr<const SingleOp>;

/// Threads: any.
class SingleOpCache {
 public:
  explicit SingleOpCache(size_t most) : most_(most) {}

  /// The code of the key whose conditions hold for the numbers, or null.
  SingleOpPtr find(const CallKey& key, std::span<const int64_t> numbers);
  void add(const CallKey& key, SingleOpPtr op);
  void clear();
  size_t size() const;

 private:
  struct Entry {
    CallKey key;
    std::vector<SingleOpPtr> ops;  // whose conditions differ
  };
  mutable std::mutex using_it_;
  size_t most_;
  std::list<Entry> entries_;  // used last: first
  std::unordered_map<CallKey, std::list<Entry>::iterator, CallKeyHash> places_;
};

/// What backends do not take, by op and dtypes, with their words.
class DeclinedOps {
 public:
  /// The reason, or empty.
  std::string find(const CallArgs& call, Device device, ResultPlace::Kind kind) const;
  void add(const CallArgs& call, Device device, ResultPlace::Kind kind, std::string reason);
  void clear();

 private:
  mutable std::mutex using_it_;
  std::unordered_map<CallKey, std::string, CallKeyHash> reasons_;
};

}  // namespace tenon
