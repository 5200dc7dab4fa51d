// Compiles every C++ block of Markdown pages, and runs those that are programs.
//
//   check_docs FOLDER COMPILER LIBRARY "FLAGS" PAGES...
//
// A block is a source file of its own; it begins with its #include lines. What is wrong is printed
// with the page and the line of the block.
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace fs = std::filesystem;

namespace {

struct Block {
  fs::path page;
  int line = 0;
  std::string text;
};

std::vector<Block> blocks_of(const fs::path& page) {
  std::vector<Block> blocks;
  std::ifstream in(page);
  bool inside = false;
  int number = 0;
  for (std::string line; std::getline(in, line);) {
    ++number;
    if (!inside && line == "```cpp") {
      blocks.push_back({page, number + 1, ""});
      inside = true;
    } else if (inside && line == "```") {
      inside = false;
    } else if (inside) {
      blocks.back().text += line + "\n";
    }
  }
  return blocks;
}

// A path as one word of a shell.
std::string shell_word(const fs::path& path) { return "'" + path.string() + "'"; }

bool is_program(const Block& block) { return block.text.find("int main(") != std::string::npos; }

struct Compiler {
  fs::path folder;
  std::string command, library, flags;

  // True when the block compiles and, if it is a program, ends with 0.
  bool check(const Block& block) const {
    std::string stem = block.page.stem().string() + "_" + std::to_string(block.line);
    fs::path source = folder / (stem + ".cpp"), result = folder / stem;
    std::ofstream(source) << "#line " << block.line << " \"" << block.page.string() << "\"\n"
                          << block.text;
    std::string line = shell_word(command) + " -std=c++20 " + flags + " " + shell_word(source) +
                       " -o " + shell_word(result) + " ";
    line += is_program(block) ? shell_word(library) + " -Xlinker -rpath -Xlinker " +
                                    shell_word(fs::path(library).parent_path())
                              : std::string("-c");
    if (std::system(line.c_str()) != 0) return false;
    return !is_program(block) || std::system(shell_word(result).c_str()) == 0;
  }
};

}  // namespace

int main(int argc, char** argv) {
  if (argc < 6) {
    std::fprintf(stderr, "usage: check_docs FOLDER COMPILER LIBRARY FLAGS PAGES...\n");
    return 2;
  }
  Compiler compiler{argv[1], argv[2], argv[3], argv[4]};
  fs::create_directories(compiler.folder);
  int n_blocks = 0, n_failed = 0;
  for (int i = 5; i < argc; ++i)
    for (const Block& block : blocks_of(argv[i])) {
      ++n_blocks;
      if (compiler.check(block)) continue;
      ++n_failed;
      std::printf("%s:%d: the block does not compile or does not run\n", argv[i], block.line);
    }
  std::printf("%d blocks, %d failed\n", n_blocks, n_failed);
  return n_blocks == 0 || n_failed > 0 ? 1 : 0;
}
