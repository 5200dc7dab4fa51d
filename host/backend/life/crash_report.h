// What a crash inside a plugin says on stderr.
#pragma once

namespace tenon {

/// From now on a signal that ends this process (SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT) says
/// first which plugin the thread was in, at which stage and with which graph; where it was in none,
/// the plugins of the other threads are named. Then the signal goes its usual way. Once is enough.
/// Stacks that overflow are reported of the calling thread only.
void report_crashes();

}  // namespace tenon
