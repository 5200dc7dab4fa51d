// opgen: reads the schemas out of op rows and writes the typed C++ API.
//
//     opgen --out FOLDER ROW_FILE... | @FILE_WITH_ONE_NAME_A_LINE
//
// A file is written only when its text changes, so that editing a kernel rebuilds that kernel.
#include "ops/opgen/write.h"

#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>

namespace tenon::opgen {

namespace {

std::string read(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  require(file.good(), "{}: expected a readable file; does it exist?", path.string());
  return {std::istreambuf_iterator<char>(file), {}};
}

void write_if_changed(const std::filesystem::path& path, const std::string& text) {
  if (std::filesystem::exists(path) && read(path) == text) return;
  std::filesystem::create_directories(path.parent_path());
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  require(file.good(), "{}: cannot be written; is there space, and the right to write?",
          path.string());
}

std::vector<std::string> row_files(int argc, char** argv) {
  std::vector<std::string> files;
  for (int i = 3; i < argc; ++i) {
    std::string_view arg = argv[i];
    if (!arg.starts_with("@")) {
      files.emplace_back(arg);
      continue;
    }
    std::ifstream list{std::string(arg.substr(1))};
    require(list.good(), "{}: expected a list of files; does it exist?", arg.substr(1));
    for (std::string line; std::getline(list, line);)
      if (!line.empty()) files.push_back(line);
  }
  return files;
}

void run(int argc, char** argv) {
  require(argc >= 3 && std::string_view(argv[1]) == "--out",
          "usage: opgen --out FOLDER ROW_FILE... (or @FILE with one name a line)");
  std::vector<RowFile> files;
  for (const std::string& path : row_files(argc, argv))
    files.push_back(scan_rows(path, read(path)));
  for (const auto& [path, text] : generate(files))
    write_if_changed(std::filesystem::path(argv[2]) / path, text);
}

}  // namespace

}  // namespace tenon::opgen

int main(int argc, char** argv) {
  try {
    tenon::opgen::run(argc, argv);
    return 0;
  } catch (const std::exception& error) {
    std::cerr << "opgen: " << error.what() << "\n";
    return 1;
  }
}
