// Measures what docs/performance.md shows, and writes that page and the headlines of README.md.
//
//   figures measure [FILTER]   run the programs, store the results in bench/results, write the
//   pages figures page               write the pages from the results that are there figures check
//   fail when the pages differ from what `page` would write
//
// Runs in the root of the repository. bench/figures.json lists the figures: what each one is, the
// command that measures it and where the numbers are in its output. A result file holds what one
// machine measured on one day.
#include "figures.h"

#include <cstdio>
#include <fstream>
#include <iterator>

namespace figures {

namespace {

namespace fs = std::filesystem;

const fs::path list_path = "bench/figures.json", results_path = "bench/results";
const fs::path page_path = "docs/performance.md", readme_path = "README.md";

std::string read_text(const fs::path& path) {
  std::ifstream in(path);
  if (!in) throw Error(path.string() + ": cannot be read; run this in the root of the repository");
  return {std::istreambuf_iterator<char>(in), {}};
}

struct Pages {
  std::string performance, readme;
};

Pages pages_of(const Json& list) {
  std::vector<Json> results = read_results(results_path);
  return {page(list, results), with_headlines(read_text(readme_path), list, results)};
}

int check(const Json& list) {
  Pages wanted = pages_of(list);
  bool same = true;
  for (const auto& [path, text] :
       {std::pair(page_path, wanted.performance), std::pair(readme_path, wanted.readme)}) {
    if (read_text(path) == text) continue;
    same = false;
    std::printf("%s is not what bench/results says; run ./dev figures --page\n", path.c_str());
  }
  return same ? 0 : 1;
}

int run(const std::vector<std::string>& words) {
  std::string verb = words.empty() ? "" : words[0];
  Json list = read_json(list_path);
  if (verb == "check") return check(list);
  if (verb != "measure" && verb != "page") {
    std::fprintf(stderr, "usage: figures measure [FILTER] | page | check\n");
    return 2;
  }
  if (verb == "measure") measure(list, results_path, words.size() > 1 ? words[1] : "");
  Pages pages = pages_of(list);
  std::ofstream(page_path) << pages.performance;
  std::ofstream(readme_path) << pages.readme;
  return 0;
}

}  // namespace

}  // namespace figures

int main(int argc, char** argv) {
  try {
    return figures::run({argv + 1, argv + argc});
  } catch (const std::exception& e) {
    std::fprintf(stderr, "figures: %s\n", e.what());
    return 2;
  }
}
