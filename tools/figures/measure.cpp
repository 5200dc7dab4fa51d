// Running the programs of the list and picking the numbers out of what they print.
#include "figures.h"

#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <iterator>
#include <map>
#include <regex>
#include <thread>

namespace figures {

namespace {

namespace fs = std::filesystem;

// Five repetitions, so that one disturbance of the machine is not the figure.
constexpr const char* repeated =
    " --benchmark_repetitions=5 --benchmark_report_aggregates_only=true"
    " --benchmark_enable_random_interleaving=true --benchmark_out_format=json --benchmark_out=";

/// What a command prints. One that finds something wrong may still tell its figures.
std::string output_of(const std::string& command, bool must_succeed = true) {
  FILE* pipe = popen(("bash <<'END' 2>&1\n" + command + "\nEND").c_str(), "r");
  if (!pipe) throw Error(command + ": cannot be run");
  std::string out;
  char part[4096];
  for (size_t n; (n = std::fread(part, 1, sizeof part, pipe)) > 0;) out.append(part, n);
  if (pclose(pipe) != 0 && must_succeed) throw Error(command + ": failed\n" + out);
  return out;
}

std::string line_of(const std::string& command) {
  std::string out = output_of(command);
  return out.substr(0, out.find('\n'));
}

/// One run of a benchmark program; its JSON.
Json run_benchmark(const std::string& command) {
  fs::path out = fs::temp_directory_path() / "tenon_figures.json";
  const char* more = std::getenv("TENON_FIGURES_ARGUMENTS");  // such as --benchmark_min_time=0.01
  output_of(command + repeated + out.string() + " " + (more ? more : ""));
  Json result = read_json(out);
  fs::remove(out);
  return result;
}

/// Every command runs once, however many figures come from it.
class Runs {
 public:
  const Json& benchmark(const std::string& command) {
    auto at = benchmarks_.find(command);
    return at == benchmarks_.end() ? benchmarks_[command] = run_benchmark(command) : at->second;
  }
  const std::string& output(const std::string& command, bool must_succeed) {
    auto at = outputs_.find(command);
    return at == outputs_.end() ? outputs_[command] = output_of(command, must_succeed) : at->second;
  }

 private:
  std::map<std::string, Json> benchmarks_;
  std::map<std::string, std::string> outputs_;
};

/// The median of a case, in ns; "CASE FIELD" is a counter of it.
double median_of(const Json& run, const std::string& wanted) {
  std::string name = wanted.substr(0, wanted.find(' '));
  std::string field = name == wanted ? "real_time" : wanted.substr(name.size() + 1);
  const std::map<std::string, double> ns{{"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}};
  for (const Json& one : run.at("benchmarks")) {
    if (one.at("run_name") != name || one.value("aggregate_name", "") != "median") continue;
    double value = one.at(field);
    return field == "real_time" ? value * ns.at(one.at("time_unit")) : value;
  }
  throw Error("there is no benchmark " + name + " in the program's output");
}

/// "A", "A - B" for what A takes beyond B, or "A / B" for how many times as long A takes.
double value_of(const Json& run, const std::string& wanted) {
  for (const char* sign : {" - ", " / "}) {
    size_t at = wanted.find(sign);
    if (at == std::string::npos) continue;
    double left = median_of(run, wanted.substr(0, at)),
           right = median_of(run, wanted.substr(at + 3));
    return sign[1] == '-' ? left - right : left / right;
  }
  return median_of(run, wanted);
}

/// What a pattern's groups match in the last line that it fits; numbers as numbers.
Json picked(const std::string& output, const std::string& pattern) {
  std::smatch last;
  std::regex regex(pattern);
  for (std::sregex_iterator at(output.begin(), output.end(), regex), end; at != end; ++at)
    last = *at;
  if (last.empty()) throw Error("`" + pattern + "` does not match\n" + output);
  Json out = Json::array();
  for (size_t i = 1; i < last.size(); ++i) {
    std::string text = last[i];
    char* end = nullptr;
    double number = std::strtod(text.c_str(), &end);
    if (end == text.c_str() + text.size())
      out.push_back(number);
    else
      out.push_back(text);
  }
  return out;
}

Json measured(const Json& figure, Runs& runs) {
  const std::string command = figure.at("command");
  Json out = Json::array();
  if (figure.contains("benchmarks")) {
    for (const std::string wanted : figure["benchmarks"])
      out.push_back(value_of(runs.benchmark(command), wanted));
  } else if (figure.contains("json")) {
    std::string text = runs.output(command + " 2>/dev/null", true);
    Json document = Json::parse(text, nullptr, false);
    if (document.is_discarded()) throw Error(command + " does not print JSON:\n" + text);
    for (const std::string pointer : figure["json"])
      out.push_back(document.at(Json::json_pointer(pointer)));
  } else {
    out = picked(runs.output(command, false), figure.at("pattern"));
  }
  return out;
}

/// The name and the widest vectors, which names of virtual machines don't tell: "AMD EPYC, AVX-512".
std::string processor() {
  std::ifstream in("/proc/cpuinfo");
  std::string name = "unknown processor";
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("model name")) name = line.substr(line.find(": ") + 2);
    if (!line.starts_with("flags")) continue;
    if (line.find(" avx512f") != std::string::npos) return name + ", AVX-512";
    if (line.find(" avx2") != std::string::npos) return name + ", AVX2";
    break;
  }
  return name;
}

std::string today() {
  char text[16];
  std::time_t now = std::time(nullptr);
  std::strftime(text, sizeof text, "%Y-%m-%d", std::localtime(&now));
  return text;
}

std::string machine() {
  const char* given = std::getenv("TENON_MACHINE");
  if (given) return given;
  return processor() + ", " + std::to_string(std::thread::hardware_concurrency()) + " virtual CPUs";
}

/// "amd-epyc-2-virtual-cpus-2026-11-21.json"
fs::path file_of(const std::string& machine, const std::string& date) {
  std::string name;
  for (char c : machine + "-" + date) {
    bool is_plain = std::isalnum(static_cast<unsigned char>(c)) != 0;
    if (is_plain)
      name += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    else if (!name.empty() && name.back() != '-')
      name += '-';
  }
  return name + ".json";
}

}  // namespace

void measure(const Json& list, const fs::path& folder, const std::string& filter) {
  std::string date = today();
  fs::path path = folder / file_of(machine(), date);
  Json result = fs::exists(path) ? read_json(path) : Json{{"schema", 1}};
  result["machine"] = machine();
  result["date"] = date;
  result["commit"] = line_of("git rev-parse --short HEAD");
  result["compiler"] = std::string("g++ ") + __VERSION__;
  Runs runs;
  for (const Json& figure : list.at("figures")) {
    const std::string name = figure.at("name");
    if (name.find(filter) == std::string::npos) continue;
    std::printf("%s\n", name.c_str());
    std::fflush(stdout);
    result["figures"][name] = measured(figure, runs);
    std::ofstream(path) << result.dump(1) << "\n";  // what was measured survives a failure later
  }
}

}  // namespace figures
