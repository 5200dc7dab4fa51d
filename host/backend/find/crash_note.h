// Remembers the signal that ends a process while a plugin is being loaded.
#pragma once

#include <csignal>
#include <string>

namespace tenon {

/// While it lives, a signal with which this thread crashes is written to `file` as "signal 11\n",
/// and then goes its usual way; exit() on this thread is written as "exit 1\n". A signal that asks
/// the process to end (Ctrl-C), or exit() elsewhere, is not a crash: it removes `path`. What another
/// process sent is not the plugin's doing and writes nothing. At most one at a time; made and
/// destroyed by one thread. The actions of the program are restored, unless somebody else has set
/// others meanwhile.
class CrashNote {
 public:
  CrashNote(int file, const std::string& path);
  ~CrashNote();
  CrashNote(const CrashNote&) = delete;
  CrashNote& operator=(const CrashNote&) = delete;

  static constexpr int crashes[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGSYS};
  static constexpr int requests[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
};

}  // namespace tenon
