// A parent that forks, and children that run one mutant after the other.
//
// Problem: a million inputs, each of which may end the process, hang, or take all memory. Model: the
// parent never runs an input; a child tells through shared memory which one it is at. Method: a
// child that dies has found something; the next one goes on behind it. Cost: a fork and the first
// compile of each backend for a batch of mutants, two reads of /proc/self/status for each mutant.
#include "mutants/batch.h"

#include "config/config.h"
#include "mutants/watch.h"
#include "mutants/words.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>

namespace tenon::fuzz {

namespace {

constexpr uint32_t most_in_a_child = 2000;

/// A small graph, its code and LLVM's working memory take some 15 MiB (the seeds without changes);
/// a mutant may take four times that. The address sanitizer puts some hundred bytes around each
/// allocation and keeps what was freed: 65537 views of an input, at most 1048576 are made, take
/// 45 MiB and 127 with it.
#ifdef __SANITIZE_ADDRESS__
constexpr int64_t most_growth = int64_t{192} << 20;
#else
constexpr int64_t most_growth = int64_t{64} << 20;
#endif

struct Counter {
  std::array<char, 40> name;
  std::atomic<uint64_t> n;
};

/// Written by children, read by the parent.
struct Shared {
  std::atomic<uint32_t> at;
  std::atomic<int64_t> most_growth;
  std::array<Counter, 32> counters;
};

Shared* shared = nullptr;

void make_shared() {
  if (shared) return;
  void* memory =
      ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  check(memory != MAP_FAILED, "no shared memory");
  shared = new (memory) Shared();
}

void count_shared(std::string_view name) {
  for (Counter& counter : shared->counters) {
    if (counter.name[0] == '\0') name.copy(counter.name.data(), counter.name.size() - 1);
    if (name == counter.name.data()) {
      ++counter.n;
      return;
    }
  }
  check(false, "more things are counted than there are counters");
}

std::vector<Run> targets_of(const Format& format) {
  std::vector<Run> out;
  std::istringstream names{std::string(format.targets)};
  for (std::string name; names >> name;) out.push_back(find_target(name));
  return out;
}

// In memory of exactly its size, so that the address sanitizer sees reads beyond it.
void run_input(const std::vector<Run>& targets, const std::string& input) {
  auto exact = std::make_unique<char[]>(input.size());
  input.copy(exact.get(), input.size());
  for (Run target : targets) target({exact.get(), input.size()});
}

std::string mutant(const Batch& batch, uint32_t seed) {
  Choices choices(seed);
  return batch.format->mutate(one_of(choices, batch.files), choices);
}

void run_one(const std::vector<Run>& targets, const Batch& batch, uint32_t seed) {
  std::string input = mutant(batch, seed);
  start_clock();
  MemoryPeak peak;
  run_input(targets, input);
  int64_t growth = peak.growth();
  shared->most_growth = std::max(shared->most_growth.load(), growth);
  check(growth <= most_growth,
        message("memory grew by {} MiB, at most {} are allowed", growth >> 20, most_growth >> 20));
}

// What is made once for a process is not the memory of a mutant. Mutants of files that are not
// accepted would test little.
void run_seeds(const std::vector<Run>& targets, const Batch& batch) {
  static bool is_accepted = false;
  count_slot = [](std::string_view) { is_accepted = true; };
  for (const std::string& file : batch.files) {
    start_clock();
    run_input(targets, file);
  }
  check(is_accepted, "none of the seeds is accepted");
  count_slot = count_shared;
}

[[noreturn]] void run_child(const Batch& batch, uint32_t first, uint32_t end,
                            const std::string& log) {
  int fd = ::open(log.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (fd < 0 || ::dup2(fd, STDERR_FILENO) < 0) std::abort();
  std::vector<Run> targets = targets_of(*batch.format);
  run_seeds(targets, batch);
  for (uint32_t seed = first; seed != end; ++seed) {
    shared->at = seed;
    run_one(targets, batch, seed);
  }
  std::_Exit(0);
}

std::string what_ended(int status) {
  if (WIFEXITED(status)) return message("the process ended with status {}", WEXITSTATUS(status));
  int signal = WTERMSIG(status);
  if (signal == SIGPROF || signal == SIGALRM) return "it hangs";
  return message("signal {} ({})", signal, ::strsignal(signal));
}

std::string content_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// The lines of the log that say what happened: those of warnings are of earlier mutants.
std::string reason_in(const std::string& log) {
  std::istringstream lines(content_of(log));
  std::string out;
  for (std::string line; std::getline(lines, line);)
    if (!line.starts_with("tenon warning")) out += line + "\n";
  return out.substr(0, 6000);
}

void tell_finding(const Batch& batch, uint32_t seed, int status, const std::string& log) {
  std::string name = message("{}.{}", batch.format->name, seed);
  std::fprintf(stderr, "mutant %s: %s\n%s", name.c_str(), what_ended(status).c_str(),
               reason_in(log).c_str());
  if (!batch.findings.empty())
    std::ofstream(batch.findings + "/" + name, std::ios::binary) << mutant(batch, seed);
}

}  // namespace

Outcome run(const Batch& batch) {
  make_shared();
  Outcome out;
  std::string log = std::filesystem::temp_directory_path() / message("mutants.{}.log", ::getpid());
  uint32_t seed = batch.first, end = batch.first + batch.count;
  while (seed != end) {
    uint32_t stop = seed + std::min(most_in_a_child, end - seed);
    shared->at = seed;
    std::fflush(nullptr);
    pid_t child = ::fork();
    check(child >= 0, "no further process");
    if (child == 0) run_child(batch, seed, stop, log);
    int status = 0;
    ::waitpid(child, &status, 0);
    if (status != 0) {
      ++out.found;
      stop = shared->at + 1;
      tell_finding(batch, shared->at, status, log);
    }
    seed = stop;
  }
  std::filesystem::remove(log);
  out.run = batch.count;
  out.most_growth = shared->most_growth;
  for (const Counter& counter : shared->counters)
    if (counter.n > 0) out.counts[counter.name.data()] = counter.n;
  return out;
}

}  // namespace tenon::fuzz
