// A handler that reads the notes of the threads. It does nothing but system calls; what needs more is
// done by a child, which it waits for.
#include "backend/life/crash_report.h"

#include "backend/life/lifetime.h"
#include "core/threads/once.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <utility>

namespace tenon {

void (*leave_graph_slot)(const PluginCompile& compile, std::string_view signal) = nullptr;

namespace {

thread_local constinit const PluginCompile* compiling = nullptr;
std::atomic<bool> leaves_graphs{true};

constexpr int crashes[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT};
constexpr std::string_view names[] = {"SIGSEGV", "SIGBUS", "SIGILL", "SIGFPE", "SIGABRT"};
constexpr size_t n_crashes = std::size(crashes);
constexpr size_t own_stack_bytes = 64 * 1024;

struct sigaction before[n_crashes];

void say(std::string_view text) {
  [[maybe_unused]] ssize_t n = ::write(STDERR_FILENO, text.data(), text.size());
}

void tell_of_plugin(const PluginLife& life, std::string_view place, bool is_own) {
  // Another thread is of interest only where this one is in no plugin: it may work for it.
  if (!is_own && InPlugin::current()) return;
  say(is_own ? "  in plugin " : "  while another thread was in plugin ");
  say(life.name());
  if (!place.empty()) say(": ");
  say(place);
  say("\n");
}

void back_to_default(int signal) {
  struct sigaction action {};
  action.sa_handler = SIG_DFL;
  ::sigemptyset(&action.sa_mask);
  ::sigaction(signal, &action, nullptr);
  sigset_t one;
  ::sigemptyset(&one);
  ::sigaddset(&one, signal);
  ::sigprocmask(SIG_UNBLOCK, &one, nullptr);
}

// _Fork() runs no handlers of others and may be called here; the child has the memory of this moment.
void leave_graph(std::string_view signal) {
  if (!compiling || !leave_graph_slot || !leaves_graphs) return;
  pid_t child = ::_Fork();
  if (child == 0) {
    for (int one : crashes) back_to_default(one);
    back_to_default(SIGALRM);
    constexpr unsigned patience_s = 5;
    ::alarm(patience_s);
    leave_graph_slot(*compiling, signal);
    ::_exit(0);
  }
  int status = 0;
  while (child > 0 && ::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
}

extern "C" void on_crash(int signal, siginfo_t* info, void*) {
  size_t i = 0;
  while (i < n_crashes && crashes[i] != signal) ++i;
  if (i == n_crashes) return;
  say("tenon: the process ends with ");
  say(names[i]);
  say("\n");
  InPlugin::each_inside(tell_of_plugin);
  leave_graph(names[i]);
  ::sigaction(signal, &before[i], nullptr);
  // A fault happens again when the instruction is tried again; what was sent must be sent again.
  if (info->si_code <= 0) ::raise(signal);
}

// So that a stack that is full can be told of.
void give_handlers_a_stack() {
  stack_t now{};
  if (::sigaltstack(nullptr, &now) != 0 || !(now.ss_flags & SS_DISABLE)) return;
  stack_t own{};
  own.ss_sp = new (std::nothrow) char[own_stack_bytes];
  own.ss_size = own_stack_bytes;
  if (own.ss_sp) ::sigaltstack(&own, nullptr);
}

}  // namespace

LeavesGraphOnCrash::LeavesGraphOnCrash(const PluginCompile& compile)
    : before_(std::exchange(compiling, &compile)) {}
LeavesGraphOnCrash::~LeavesGraphOnCrash() { compiling = before_; }

void leave_no_graphs() { leaves_graphs = false; }

void report_crashes() {
  static Once once;
  once.run([] {
    give_handlers_a_stack();
    struct sigaction action {};
    action.sa_sigaction = on_crash;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    ::sigemptyset(&action.sa_mask);
    // What somebody has a handler for already is his.
    for (size_t i = 0; i < n_crashes; ++i)
      if (::sigaction(crashes[i], nullptr, &before[i]) == 0 && !(before[i].sa_flags & SA_SIGINFO) &&
          before[i].sa_handler == SIG_DFL)
        ::sigaction(crashes[i], &action, nullptr);
  });
}

}  // namespace tenon
