// Timers of the process, and the peak of its resident memory as Linux counts it.
#include "mutants/watch.h"

#include <sys/time.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <fstream>
#include <string>

namespace tenon::fuzz {

void start_clock() {
  constexpr itimerval processor{.it_interval = {}, .it_value = {.tv_sec = 10, .tv_usec = 0}};
  ::setitimer(ITIMER_PROF, &processor, nullptr);
  ::alarm(60);
}

// A line of /proc/self/status, "VmHWM:     2072 kB", in bytes.
static int64_t memory_of(const char* name) {
  std::ifstream status("/proc/self/status");
  long long kib = 0;
  for (std::string line; std::getline(status, line);)
    if (line.starts_with(name) &&
        std::sscanf(line.c_str() + std::strlen(name), ": %lld", &kib) == 1)
      break;
  return kib * 1024;
}

MemoryPeak::MemoryPeak() {
  // Says that the peak begins anew.
  std::ofstream("/proc/self/clear_refs") << 5;
  before_ = memory_of("VmRSS");
}

int64_t MemoryPeak::growth() const { return memory_of("VmHWM") - before_; }

}  // namespace tenon::fuzz
