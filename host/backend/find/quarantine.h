// Plugins that ended the process while they were loaded: not loaded a second time.
//
// Code of a plugin cannot be kept from crashing the process. What can be done is that the second
// start works and says why: before a file is mapped, a breadcrumb goes to <cache>/plugins/loading,
// and it is taken away when loading has ended, well or not. One that is still there although its
// process is gone stands for the end of that process. It holds for the file as it was: path, inode,
// time and size are in its name.
//
// That is not yet the plugin's fault: whoever kills a process at its start (a lack of memory, a
// container that stops) leaves the same trace. A plugin goes into quarantine on evidence only: a
// signal or an exit() of the thread that loaded it, or three ends within an hour that nobody can
// explain and no successful loading since.
#pragma once

#include "backend/find/diagnose.h"
#include "backend/find/note.h"

#include <memory>
#include <string>
#include <vector>

namespace tenon {

class CrashNote;

/// What a breadcrumb says.
struct CrashRecord {
  std::string breadcrumb;  ///< its path
  std::string key;         ///< of the file as it was
  std::string file, plugin;
  std::string log;  ///< where the log lines of that process went, or empty
  int64_t pid = 0;
  int64_t time = 0;     ///< seconds since 1970
  int signal = 0;       ///< with which code of the plugin ended it; 0: none is known
  bool exited = false;  ///< code of the plugin called exit()
  bool is_evident() const { return signal != 0 || exited; }
};

/// The breadcrumbs of a folder whose processes are gone, as of now. An empty or missing folder has
/// none. Whatever stands in a file, nothing is thrown.
std::vector<CrashRecord> crash_records(const std::string& folder);

/// P16 when records show that loading this very file is dangerous.
Diagnosis quarantine_verdict(const std::vector<CrashRecord>& records, const std::string& path,
                             const FileIdentity& file);

/// Stands for the loading of one file; see above. One at a time, on one thread.
class Breadcrumb {
 public:
  /// `folder` empty: none. A folder that cannot be written costs a debug line, nothing else.
  Breadcrumb(const std::string& folder, const std::string& path, const std::string& plugin,
             const FileIdentity& file);
  ~Breadcrumb();
  Breadcrumb(const Breadcrumb&) = delete;
  Breadcrumb& operator=(const Breadcrumb&) = delete;

 private:
  void forget_unexplained() noexcept;

  std::string folder_, key_;
  std::string path_;  ///< empty: none was left
  int file_ = -1;
  std::unique_ptr<CrashNote> note_;
};

}  // namespace tenon
