// Whether a plugin file may be loaded at all, judged by who could have written it.
//
// Whoever may write a file, the directory in which it lies or a link on the way to it decides what
// runs in this process. What anybody could have written is refused in every mode but `off`; what a
// group could have written, or what lies under a directory that is open to all, is worth a warning
// to `owner` and a refusal to `strict`.
#pragma once

#include "backend/find/diagnose.h"
#include "backend/find/note.h"

#include <cstdint>
#include <map>
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

/// Who else could have written a file that was named, not found: a file or folder that others may
/// write, or that belongs to neither root nor this user; empty where nobody. A folder where all may
/// make files but nobody can touch those of others, such as /tmp, is good enough for one's own
/// file.
std::string writers_problem(const std::string& path);

/// Judges files as they are at one moment: each directory is examined once. Not for several
/// threads.
class TrustCheck {
 public:
  explicit TrustCheck(TrustMode mode) : mode_(mode) {}

  /// The file, its directory, all that links on the way lead to, and the directories above.
  TrustVerdict judge(const std::string& path);
  /// What the file asks of the loader: an executable stack, libraries from a RUNPATH that others
  /// may write. Adds to `verdict`.
  void judge_contents(const std::string& path, const ElfInfo& elf, TrustVerdict& verdict);

 private:
  struct Finding {
    std::string reason, hint;
  };
  struct Findings {
    std::vector<Finding> refused, doubtful;
    void add(const Findings& others);
  };
  /// A directory behind all links that its path goes through.
  struct Directory {
    std::string path;
    std::string problem;  ///< why it cannot be examined, or empty
    Findings way;         ///< about the links followed and the directories above, itself included
    Findings contents;    ///< about those who may put files into it
  };

  static void examine_writers(const std::string& path, const struct stat& status, Findings& out);
  const Directory& directory(const std::string& path);
  Directory entered(const Directory& above, const std::string& name);
  Directory followed(Directory link);
  bool is_counted_link(const std::string& path, std::string& target, std::string& problem);
  Findings examine_file(std::string path);
  void examine_run_path(std::string entry, Findings& out);
  void settle(const std::string& plugin, const Findings& findings, TrustVerdict& verdict) const;

  TrustMode mode_;
  int n_links_ = 0;  ///< followed for the present path
  std::map<std::string, Directory> directories_;
};

}  // namespace tenon
