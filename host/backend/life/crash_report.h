// What a crash inside a plugin says on stderr, and what it leaves behind.
#pragma once

#include <string_view>

namespace tenon {

struct CompileRequest;

/// From now on a signal that ends this process (SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT) says
/// first which plugin the thread was in, at which stage and with which graph; where it was in none,
/// the plugins of the other threads are named. A graph that the thread was having compiled is left
/// behind. Then the signal goes its usual way. Once is enough. Stacks that overflow are reported of
/// the calling thread only.
void report_crashes();

/// What a plugin is compiling in this thread.
struct PluginCompile {
  const CompileRequest& request;
  std::string_view plugin, backend;
};

/// While it lives, a crash of this thread leaves the graph of the request behind.
class LeavesGraphOnCrash {
 public:
  explicit LeavesGraphOnCrash(const PluginCompile& compile);
  ~LeavesGraphOnCrash();
  LeavesGraphOnCrash(const LeavesGraphOnCrash&) = delete;

 private:
  const PluginCompile* before_;
};

/// Writes the graph; filled by runtime/repro.cpp. Called in a copy of the process that was made when
/// the signal came, which may do what a handler may not: its heap may be damaged, though, so it has
/// some seconds, and a crash in it is the end of it only.
extern void (*leave_graph_slot)(const PluginCompile& compile, std::string_view signal);

/// For processes that are meant to crash: from now on they leave no graphs.
void leave_no_graphs();

}  // namespace tenon
