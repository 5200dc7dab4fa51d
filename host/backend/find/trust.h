// Whether a plugin file may be loaded at all, judged by who could have written it.
//
// Whoever may write a file, the directory in which it lies or a link on the way to it decides what
// runs in this process. What anybody could have written is refused in every mode but `off`; what a
// group could have written, or what lies under a directory that is open to all, is worth a warning
// to `owner` and a refusal to `strict`.
#pragma once

#include "backend/find/diagnose.h"
#include "backend/find/note.h"
#include "core/path_writers.h"

#include <cstdint>
#include <string>
#include <vector>

namespace tenon {

/// `off` asks nothing, `owner` warns where `strict` refuses.
enum class TrustMode : uint8_t { strict, owner, off };

struct TrustVerdict {
  Diagnosis refusal;                ///< P14 or none
  std::vector<Diagnosis> warnings;  ///< P14 each: what `strict` would refuse
  friend bool operator==(const TrustVerdict&, const TrustVerdict&) = default;
};

/// Judges files as they are at one moment: each directory is examined once. Not for several
/// threads.
class TrustCheck {
 public:
  explicit TrustCheck(TrustMode mode) : mode_(mode) {}

  /// The file, its directory, all that links on the way lead to, and the directories above.
  TrustVerdict judge(const std::string& path);
  /// A file that was named and is open: what `descriptor` shows is judged, and that `path` leads to
  /// it by a way on which nobody else could have put another one.
  TrustVerdict judge_opened(const std::string& path, int descriptor);
  /// What the file asks of the loader: an executable stack, libraries from a RUNPATH that others
  /// may write. Adds to `verdict`.
  void judge_contents(const std::string& path, const ElfInfo& elf, TrustVerdict& verdict);

 private:
  void examine_run_path(std::string entry, WriterFindings& out);
  void settle(const std::string& plugin, const WriterFindings& findings,
              TrustVerdict& verdict) const;

  TrustMode mode_;
  PathWriters writers_;
};

}  // namespace tenon
