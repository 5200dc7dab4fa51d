// Writing to a pipe that nobody reads any more.
#pragma once

#include <time.h>

#include <cerrno>
#include <csignal>

namespace tenon::report {

/// While it lives, that is an error of this thread as on a full disk, and no signal.
class WithoutSigpipe {
 public:
  WithoutSigpipe() {
    sigset_t pending;
    sigpending(&pending);
    is_others_ = sigismember(&pending, SIGPIPE) == 1;  // one that waits already is not ours to take
    sigemptyset(&pipe_);
    sigaddset(&pipe_, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
  }
  ~WithoutSigpipe() {
    const int error = errno;
    const timespec at_once{};
    while (!is_others_ && sigtimedwait(&pipe_, nullptr, &at_once) < 0 && errno == EINTR) continue;
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
    errno = error;
  }
  WithoutSigpipe(const WithoutSigpipe&) = delete;
  WithoutSigpipe& operator=(const WithoutSigpipe&) = delete;

 private:
  sigset_t pipe_, before_;
  bool is_others_ = false;
};

}  // namespace tenon::report
