// Who else could have written what a path leads to: the file, the directory in which it lies, a link
// on the way or a directory above it.
//
// Whoever may change one of these decides what the reader of the path gets. What belongs to neither
// root nor this user, or may be written by anybody, is `refused`; what a group may write, or what
// lies below a directory that is open to all or belongs to another user, is `doubtful`: they can
// exchange it for other files of ours only. Which of the two counts is for those who ask to decide.
#pragma once

#include <sys/stat.h>

#include <map>
#include <string>
#include <vector>

namespace tenon {

/// True in a program with more rights than its user (set-uid, capabilities): what that user wrote
/// must not steer it.
bool process_is_secure();

struct WriterFinding {
  std::string reason;
  std::string hint;  ///< a command that cures it, or empty
};

struct WriterFindings {
  std::vector<WriterFinding> refused, doubtful;
  void add(const WriterFindings& others);
};

/// Examines paths as they are at one moment, each directory once. Paths are absolute. Not for
/// several threads.
class PathWriters {
 public:
  /// A directory behind all links that its path goes through.
  struct Directory {
    std::string path;
    std::string problem;  ///< why it cannot be examined, or empty
    WriterFindings way;   ///< about the links followed and the directories above, itself included
    WriterFindings contents;  ///< about those who may put files into it
    struct stat status {};
  };

  /// A file that is found by looking into its directory: the file, the directory, all that links on
  /// the way lead to, and the directories above.
  WriterFindings of_found_file(const std::string& path);
  /// A file that was named, open as `descriptor`: the same, and the path must still lead to that
  /// file. A directory where all may make files but nobody can touch those of others, such as
  /// /tmp, is good enough for one's own file.
  WriterFindings of_opened_file(const std::string& path, int descriptor);
  const Directory& directory(const std::string& path);

 private:
  const Directory& walked(const std::string& path);
  enum class Kind : uint8_t { found, opened };
  struct Walk {
    Kind kind;
    const struct stat* opened = nullptr;
  };
  WriterFindings of_file(std::string path, const Walk& walk);
  static void examine_end(const std::string& file, const struct stat& at_path, const Walk& walk,
                          WriterFindings& out);
  static WriterFindings findings_about(const Directory& above, Kind kind);
  Directory entered(const Directory& above, const std::string& name);
  Directory followed(Directory link);
  bool is_counted_link(const std::string& path, std::string& target, std::string& problem);

  int n_links_ = 0;  ///< followed for the present path
  std::map<std::string, Directory> directories_;
};

}  // namespace tenon
