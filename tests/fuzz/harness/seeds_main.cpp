// Runs a fuzz target on the files of a folder, without libFuzzer: what was found stays repaired.
#include "harness/fuzz.h"

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>

namespace {

// In memory of exactly its size, so that the address sanitizer sees reads beyond it.
void run_file(tenon::fuzz::Run run, const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(file), {}};
  auto exact = std::make_unique<char[]>(text.size());
  text.copy(exact.get(), text.size());
  run({exact.get(), text.size()});
}

}  // namespace

int main(int argc, char** argv) {
  tenon::fuzz::check(argc == 3, "usage: fuzz_seeds TARGET FOLDER");
  tenon::fuzz::Run run = tenon::fuzz::find_target(argv[1]);
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(argv[2])) {
    // Printed before it runs: the last name is that of the seed that ends the program.
    std::printf("%s\n", entry.path().filename().c_str());
    std::fflush(stdout);
    run_file(run, entry.path());
    ++count;
  }
  std::printf("%d seeds of %s\n", count, argv[1]);
  return count == 0;
}
