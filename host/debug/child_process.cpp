// Child processes of this program: starting, reading while they run, and their end.
#include "debug/child_process.h"

#include "backend/life/crash_report.h"
#include "core/error.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>

extern char** environ;

namespace tenon {

namespace {

constexpr size_t max_log = 16 << 10;

/// Two ends of a pipe that children do not inherit by themselves.
struct Pipe {
  int read_end = -1, write_end = -1;
  Pipe() {
    int ends[2];
    require(::pipe2(ends, O_CLOEXEC) == 0, "cannot make a pipe: {}", std::strerror(errno));
    read_end = ends[0];
    write_end = ends[1];
  }
  ~Pipe() {
    ::close(read_end);
    close_write();
  }
  Pipe(const Pipe&) = delete;
  void close_write() {
    if (write_end >= 0) ::close(write_end);
    write_end = -1;
  }
};

// Appends what can be read; false at the end of the file.
bool read_some(int file, std::string& text) {
  char buffer[1 << 14];
  ssize_t n = ::read(file, buffer, sizeof buffer);
  if (n < 0) return errno == EINTR;
  text.append(buffer, static_cast<size_t>(n));
  return n > 0;
}

/// What a child writes, read in turns.
class Listener {
 public:
  Listener(int lines, int log, const std::function<void(std::string_view)>& on_line)
      : files_{{lines, POLLIN, 0}, {log, POLLIN, 0}}, on_line_(on_line) {}

  /// Reads until both files end; false when no line came for `limit_s` seconds.
  bool listen(double limit_s) {
    auto last = std::chrono::steady_clock::now();
    while (files_[0].fd >= 0 || files_[1].fd >= 0) {
      std::chrono::duration<double> quiet = std::chrono::steady_clock::now() - last;
      if (quiet.count() >= limit_s) return false;
      ::poll(files_, 2, static_cast<int>((limit_s - quiet.count()) * 1000) + 1);
      if (take(1, log)) log.erase(0, log.size() > max_log ? log.size() - max_log : 0);
      if (take(0, unread_) && tell()) last = std::chrono::steady_clock::now();
    }
    return true;
  }
  /// What is left after the child was killed.
  void drain() {
    for (size_t i = 0; i < 2; ++i)
      while (files_[i].fd >= 0 && ::poll(&files_[i], 1, 0) > 0) take(i, i ? log : unread_);
    tell();
  }

  std::string log;

 private:
  bool take(size_t i, std::string& into) {
    if (files_[i].fd < 0 || !(files_[i].revents & (POLLIN | POLLHUP | POLLERR))) return false;
    if (!read_some(files_[i].fd, into)) files_[i].fd = -1;
    return true;
  }
  bool tell() {
    size_t begin = 0;
    for (size_t end; (end = unread_.find('\n', begin)) != std::string::npos; begin = end + 1)
      on_line_(std::string_view(unread_).substr(begin, end - begin));
    unread_.erase(0, begin);
    return begin > 0;
  }

  pollfd files_[2];
  const std::function<void(std::string_view)>& on_line_;
  std::string unread_;
};

constexpr const char* parent_variable = "TENON_PARENT";

std::vector<char*> environment_with(const std::vector<std::string>& changed) {
  std::vector<char*> out;
  for (char** line = environ; *line; ++line) {
    std::string_view text(*line);
    bool is_replaced = std::any_of(changed.begin(), changed.end(), [&](const std::string& c) {
      return text.starts_with(std::string_view(c).substr(0, c.find('=') + 1));
    });
    if (!is_replaced) out.push_back(*line);
  }
  for (const std::string& c : changed) out.push_back(const_cast<char*>(c.c_str()));
  out.push_back(nullptr);
  return out;
}

}  // namespace

pid_t start_self(const std::vector<std::string>& arguments, std::span<const ChildFile> files,
                 const std::vector<std::string>& environment) {
  std::vector<char*> argv;
  for (const std::string& a : arguments) argv.push_back(const_cast<char*>(a.c_str()));
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  for (const ChildFile& f : files) posix_spawn_file_actions_adddup2(&actions, f.ours, f.theirs);
  std::vector<std::string> changed = environment;
  changed.push_back(message("{}={}", parent_variable, ::getpid()));
  pid_t child = 0;
  int error = ::posix_spawn(&child, "/proc/self/exe", &actions, nullptr, argv.data(),
                            environment_with(changed).data());
  posix_spawn_file_actions_destroy(&actions);
  require(error == 0, "cannot start a child process: {}", std::strerror(error));
  return child;
}

bool end_with_parent() {
  const char* text = std::getenv(parent_variable);
  if (!text) return false;
  pid_t parent = std::atoi(text);
  ::unsetenv(parent_variable);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  bool is_child = ::getppid() == parent, is_gone = parent > 0 && ::kill(parent, 0) != 0;
  if (!is_child && is_gone) ::_exit(1);         // before we got here
  if (!is_child) ::prctl(PR_SET_PDEATHSIG, 0);  // the variable was meant for another program
  if (is_child) leave_no_graphs();              // what it crashes at is known to its parent
  return is_child;
}

int wait_for(pid_t child) {
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return status;
}

ChildOutput output_of_self(const std::vector<std::string>& arguments) {
  Pipe pipe;
  const ChildFile files[] = {{pipe.write_end, STDOUT_FILENO}};
  pid_t child = start_self(arguments, files);
  pipe.close_write();
  ChildOutput out;
  while (read_some(pipe.read_end, out.text)) {
  }
  out.status = wait_for(child);
  return out;
}

ChildEnd watch_self(const std::vector<std::string>& arguments, double limit_s,
                    const std::function<void(std::string_view line)>& on_line,
                    const std::vector<std::string>& environment) {
  Pipe lines, log;
  const ChildFile files[] = {{log.write_end, STDOUT_FILENO},
                             {log.write_end, STDERR_FILENO},
                             {lines.write_end, child_lines_file}};
  pid_t child = start_self(arguments, files, environment);
  lines.close_write();
  log.close_write();
  Listener listener(lines.read_end, log.read_end, on_line);
  ChildEnd end;
  end.timed_out = !listener.listen(limit_s);
  if (end.timed_out) {
    ::kill(child, SIGKILL);
    listener.drain();
  }
  int status = wait_for(child);
  end.signal = WIFSIGNALED(status) && !end.timed_out ? WTERMSIG(status) : 0;
  end.exit_status = WIFEXITED(status) ? WEXITSTATUS(status) : 0;
  end.log = std::move(listener.log);
  return end;
}

}  // namespace tenon
