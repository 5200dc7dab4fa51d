// Starting threads that take no signals from outside.
#pragma once

#include <pthread.h>

#include <csignal>

namespace tenon {

/// While it lives, threads start closed to signals: those are the business of the program's own
/// threads. Open are those that an instruction raises, since where they are closed, the kernel ends the
/// process and asks no handler of the program.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t from_outside;
    sigfillset(&from_outside);
    for (int raised : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS})
      sigdelset(&from_outside, raised);
    pthread_sigmask(SIG_SETMASK, &from_outside, &before_);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_;
};

}  // namespace tenon
