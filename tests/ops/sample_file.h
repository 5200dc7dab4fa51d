// Calls of ops that no recording of PyTorch covers, as samples.txt has them.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

namespace tenon::testing {

/// What the file says of an op: `OP ARGUMENTS`, `OP without CHECK: why`, `OP untested: why`.
struct SampleEntry {
  std::vector<std::string> calls;
  std::set<std::string> without;  ///< checks
  bool untested = false;
};

class SampleFile {
 public:
  explicit SampleFile(const std::string& path);
  const std::map<std::string, SampleEntry>& entries() const { return entries_; }
  /// The entry of an op, or of its namespace: "sym.*".
  const SampleEntry& entry_for(const std::string& op) const;

 private:
  std::map<std::string, SampleEntry> entries_;
};

/// The recordings of PyTorch's ops: paths by op.
std::map<std::string, std::string> recorded_ops();

}  // namespace tenon::testing
