// Runs mutants of files of one format:
//
//     mutants FORMAT SEEDS COUNT [FIRST [FINDINGS]]
//
// SEEDS: a folder of files as the fuzz target takes them, or of .pt2 archives. The mutants are those
// of the numbers FIRST (0), FIRST + 1, ... FINDINGS: a folder for those that fail. The last line
// tells how many were run, accepted and refused, by backend; the status is 1 when one failed.
#include "config/config.h"
#include "core/threads/thread_pool.h"
#include "formats/zip.h"
#include "mutants/batch.h"
#include "ops/op_table.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

using namespace tenon;
using namespace tenon::fuzz;

namespace {

// Without what is large: the weights are random where they are missing.
std::string records_of_archive(const std::string& path) {
  constexpr uint64_t most = 64 << 10;
  auto archive = formats::ZipArchive::open(path);
  std::string out;
  for (const formats::ZipEntry& entry : archive.entries()) {
    if (entry.size > most) continue;
    std::string name = entry.name.substr(entry.name.find('/') + 1);
    out += message("{}=== {}\n{}", out.empty() ? "" : "\n", name,
                   formats::as_text(archive.read(entry).span));
  }
  return out;
}

std::string content_of(const std::filesystem::path& path) {
  if (path.extension() == ".pt2") return records_of_archive(path);
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::vector<std::string> files_in(const std::string& folder) {
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    paths.push_back(entry.path());
  std::ranges::sort(paths);
  std::vector<std::string> out;
  for (const auto& path : paths) out.push_back(content_of(path));
  check(!out.empty(), "there are no seeds in " + folder);
  return out;
}

uint32_t number(const char* text) { return static_cast<uint32_t>(std::strtoul(text, nullptr, 10)); }

void print(const Batch& batch, const Outcome& outcome) {
  std::printf("%u mutants of %s", outcome.run, std::string(batch.format->name).c_str());
  for (const auto& [name, n] : outcome.counts)
    std::printf(", %s %llu", name.c_str(), static_cast<unsigned long long>(n));
  std::printf(", memory grew by at most %lld MiB, %u findings\n",
              static_cast<long long>(outcome.most_growth >> 20), outcome.found);
}

}  // namespace

int main(int argc, char** argv) {
  check(argc >= 4, "usage: mutants FORMAT SEEDS COUNT [FIRST [FINDINGS]]");
  // One thread: a fork keeps no other.
  config::set("compiler.threads", 1);
  config::set("compiler.force_disable_caches", true);
  set_num_threads(1);
  Batch batch{.format = &find_format_of_mutants(argv[1]),
              .files = files_in(argv[2]),
              .first = argc > 4 ? number(argv[4]) : 0,
              .count = number(argv[3]),
              .findings = argc > 5 ? argv[5] : ""};
  if (!batch.findings.empty()) std::filesystem::create_directories(batch.findings);
  Outcome outcome = run(batch);
  print(batch, outcome);
  return outcome.found > 0 ? 1 : 0;
}
