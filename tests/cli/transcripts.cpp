// Transcripts: command lines with what they print and how they end. Rooms `cli`, `errors`,
// `config`.
//
//     # One sentence: what holds.
//     needs script -qec true t        the case is skipped where this command fails
//     file bad.tng                    a file in the folder of the case, the indented lines
//       graph
//     run tenon graph bad.tng         by the shell, with `tenon` on the PATH
//     exit 3                          checked after each run; 0 unless given
//     stdout                          all of it; stdout_has TEXT, stdout_lacks TEXT: a part
//       %x
//     stderr_has bad.tng              likewise
//     json backends.0.name            a value in stdout's JSON document: exact after `=`,
//     json schema = 1                 else it must only be there
//
// In commands, files and expected texts {dir} stands for the folder of the case. $PROBE is the
// program tests/config/probe.cpp.
#include "../cases/case_file.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

namespace tenon::cases {

namespace {

namespace fs = std::filesystem;

std::string contents_of(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

// The block without the two spaces in front of each line.
std::string unindented(const std::string& block) {
  std::istringstream in(block);
  std::string out;
  for (std::string line; std::getline(in, line);)
    out += line.substr(std::min<size_t>(2, line.size())) + "\n";
  return out;
}

class Transcript {
 public:
  explicit Transcript(const CaseFile& file) : file_(file) {
    std::string name = fs::temp_directory_path() / "tenon-cli-XXXXXX";
    if (mkdtemp(name.data()) == nullptr) throw std::runtime_error(name + ": cannot be made");
    folder_ = name;
  }
  ~Transcript() {
    std::error_code ignored;
    fs::remove_all(folder_, ignored);
  }

  void run() {
    for (const Directive& d : file_.directives) {
      if (d.word == "needs" && run_by_shell(d.text) != 0)
        GTEST_SKIP() << "there is no `" << d.text << "` here";
      if (d.word != "needs") apply(d);
    }
    check_exit();
  }

 private:
  void apply(const Directive& d) {
    if (d.word == "file") return write_file(d);
    if (d.word == "run") return run_command(d);
    if (!command_) return fail_case(file_, d, "there is no `run` before it");
    if (d.word == "exit")
      expected_exit_ = std::stoi(d.text);
    else if (d.word == "stdout")
      expect_text(file_, d, filled(unindented(d.block)), stdout_);
    else if (d.word == "stderr")
      expect_text(file_, d, filled(unindented(d.block)), stderr_);
    else if (d.word == "stdout_has")
      expect_part(file_, d, filled(d.text), stdout_);
    else if (d.word == "stderr_has")
      expect_part(file_, d, filled(d.text), stderr_);
    else if (d.word == "stdout_lacks")
      expect_no_part(d, stdout_);
    else if (d.word == "stderr_lacks")
      expect_no_part(d, stderr_);
    else if (d.word == "json")
      expect_json(d);
    else
      fail_case(file_, d, "there is no such directive");
  }

  void write_file(const Directive& d) {
    fs::path path = folder_ / d.text;
    fs::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary) << filled(unindented(d.block));
  }

  void run_command(const Directive& d) {
    check_exit();
    command_ = &d;
    expected_exit_ = 0;
    exit_ = run_by_shell(filled(d.text));
    stdout_ = contents_of(folder_ / ".stdout");
    stderr_ = contents_of(folder_ / ".stderr");
  }

  // The exit status, or minus the signal.
  int run_by_shell(const std::string& command) const {
    fs::path program = TENON_PROGRAM;
    std::string line = "cd '" + folder_.string() + "' && PATH='" + program.parent_path().string() +
                       "':\"$PATH\" TENON_TEST_DATA='" TENON_TEST_DATA "' PROBE='" TENON_PROBE
                       "' && export PATH TENON_TEST_DATA && { " +
                       command + "\n} >.stdout 2>.stderr </dev/null";
    int status = std::system(line.c_str());
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }

  void check_exit() {
    if (command_ == nullptr || exit_ == expected_exit_) return;
    fail_case(file_, *command_,
              d_text() + "ended with " + std::to_string(exit_) + ", expected " +
                  std::to_string(expected_exit_) + "\nstderr:\n" + stderr_);
  }
  std::string d_text() const { return "`" + command_->text + "` "; }

  void expect_no_part(const Directive& d, const std::string& found) {
    if (found.find(filled(d.text)) != std::string::npos)
      fail_case(file_, d, "expected a text without it, found\n" + found);
  }

  // A path of keys and positions separated by points; the value after `=`, as JSON.
  void expect_json(const Directive& d) {
    using Json = nlohmann::ordered_json;
    Json document = Json::parse(stdout_, nullptr, false);
    if (document.is_discarded()) return fail_case(file_, d, "stdout is not JSON:\n" + stdout_);
    size_t equals = d.text.find(" = ");
    std::string pointer = "/" + d.text.substr(0, equals);
    std::replace(pointer.begin(), pointer.end(), '.', '/');
    Json::json_pointer at(pointer);
    if (!document.contains(at)) return fail_case(file_, d, "is not in\n" + stdout_);
    if (equals == std::string::npos) return;
    std::string found = document.at(at).dump(), expected = d.text.substr(equals + 3);
    if (found != filled(expected)) fail_case(file_, d, "found " + found);
  }

  std::string filled(std::string text) const {
    static constexpr std::string_view place = "{dir}";
    for (size_t at; (at = text.find(place)) != std::string::npos;)
      text.replace(at, place.size(), folder_.string());
    return text;
  }

  const CaseFile& file_;
  fs::path folder_;
  const Directive* command_ = nullptr;
  int exit_ = 0, expected_exit_ = 0;
  std::string stdout_, stderr_;
};

void run_transcript(const CaseFile& file) { Transcript(file).run(); }

const CaseRoom cli_room("cli", run_transcript);
const CaseRoom errors_room("errors", run_transcript);
const CaseRoom config_room("config", run_transcript);

}  // namespace

}  // namespace tenon::cases
