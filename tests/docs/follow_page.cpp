// Follows a page of the documentation as a reader would: writes its files, runs its commands.
//
//   follow_page FOLDER PAGE
//
// A block whose fence reads ```LANGUAGE file=PATH is written to FOLDER/PATH. In a ```console block
// a line that begins with "$ " is run by sh in FOLDER; it must end with status 0, and the lines up
// to the next command must occur in its output, in that order, where "..." stands for anything. The
// environment is the caller's: PATH decides which tenon is run.
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace fs = std::filesystem;

namespace {

struct Command {
  int line = 0;
  std::string text;
  std::vector<std::string> expected;
};

/// Reads the page, writing files and running commands where they stand.
class Reader {
 public:
  Reader(fs::path folder, fs::path page) : folder_(std::move(folder)), page_(std::move(page)) {}

  /// True when there was a command and all of them did what the page says.
  bool follow() {
    std::ifstream in(page_);
    std::string fence, body;
    int number = 0, first = 0;
    for (std::string line; std::getline(in, line);) {
      ++number;
      bool is_fence = line.starts_with("```");
      if (is_fence && fence.empty()) {
        fence = line;
        first = number + 1;
        body.clear();
      } else if (is_fence) {
        if (!take(fence, body, first)) return false;
        fence.clear();
      } else if (!fence.empty()) {
        body += line + "\n";
      }
    }
    return n_commands_ > 0;
  }
  int n_commands() const { return n_commands_; }

 private:
  bool take(const std::string& fence, const std::string& body, int first_line) {
    if (size_t at = fence.find(" file="); at != std::string::npos) {
      fs::path file = folder_ / fence.substr(at + 6);
      fs::create_directories(file.parent_path());
      std::ofstream(file) << body;
      return true;
    }
    if (fence != "```console") return true;
    for (const Command& command : commands_of(body, first_line))
      if (!run(command)) return false;
    return true;
  }

  static std::vector<Command> commands_of(const std::string& body, int line) {
    std::vector<Command> out;
    for (size_t begin = 0; begin < body.size(); ++line) {
      size_t end = body.find('\n', begin);
      std::string text = body.substr(begin, end - begin);
      begin = end + 1;
      if (text.starts_with("$ "))
        out.push_back({line, text.substr(2), {}});
      else if (!out.empty() && !text.empty())
        out.back().expected.push_back(text);
    }
    return out;
  }

  bool run(const Command& command) {
    ++n_commands_;
    fs::path log = folder_ / "output.txt";
    std::string line =
        "cd '" + folder_.string() + "' && { " + command.text + " ; } >'" + log.string() + "' 2>&1";
    int status = std::system(line.c_str());
    std::string output = text_of(log), missing;
    if (status == 0 && holds(output, command.expected, missing)) return true;
    std::printf("%s:%d: $ %s\n", page_.c_str(), command.line, command.text.c_str());
    if (status != 0) std::printf("ended with status %d; its output:\n", status);
    if (status == 0) std::printf("expected '%s' in its output:\n", missing.c_str());
    std::printf("%s\n", output.c_str());
    return false;
  }

  static std::string text_of(const fs::path& file) {
    std::ifstream in(file);
    return {std::istreambuf_iterator<char>(in), {}};
  }

  static bool holds(const std::string& output, const std::vector<std::string>& lines,
                    std::string& missing) {
    size_t at = 0;
    for (const std::string& line : lines) {
      missing = line;
      for (size_t begin = 0; begin <= line.size();) {
        size_t end = std::min(line.find("...", begin), line.size());
        std::string part = line.substr(begin, end - begin);
        at = output.find(part, at);
        if (at == std::string::npos) return false;
        at += part.size();
        begin = end + 3;
      }
    }
    return true;
  }

  fs::path folder_, page_;
  int n_commands_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: follow_page FOLDER PAGE\n");
    return 2;
  }
  fs::path folder = fs::absolute(argv[1]);
  fs::create_directories(folder);
  Reader reader(folder, argv[2]);
  bool good = reader.follow();
  std::printf("%d commands, %s\n", reader.n_commands(), good ? "as the page says" : "failed");
  return good ? 0 : 1;
}
