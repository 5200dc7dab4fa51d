// Running children, and what their ends mean.
#include "debug/minify/child_judge.h"

#include "core/error.h"
#include "debug/minify/judge.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstring>
#include <filesystem>

namespace tenon {

namespace {

// The plugin that was at work, as the report of the crash has it.
std::string plugin_in(const std::string& log) {
  size_t at = log.find("  in plugin ");
  if (at == log.npos) return "";
  std::string line = log.substr(at + 2, log.find_first_of(",\n", at) - at - 2);
  return " " + line;
}

std::string last_line(std::string log) {
  while (log.ends_with('\n')) log.pop_back();
  size_t at = log.rfind("\ntenon: ");
  std::string line = at == log.npos ? log : log.substr(at + 1);
  return line.substr(0, line.find('\n'));
}

std::string without_prefix(std::string line) {
  for (std::string_view prefix : {"tenon: ", "wrong: "})
    if (line.starts_with(prefix)) line.erase(0, prefix.size());
  return line;
}

Failure failure_of(const ChildEnd& end, const std::string& stage) {
  using Kind = Failure::Kind;
  if (end.timed_out) return make_failure(Kind::hang, message("no end of stage \"{}\"", stage));
  if (end.signal)
    return make_failure(Kind::crash, message("signal {} ({}){}", end.signal, strsignal(end.signal),
                                             plugin_in(end.log)));
  if (end.exit_status == 0) return {};
  Kind kind = end.exit_status == wrong_results_status ? Kind::wrong : Kind::error;
  return make_failure(kind, without_prefix(last_line(end.log)));
}

}  // namespace

double ChildJudge::limit() const {
  constexpr double least_s = 1, times = 5;
  if (!hastens_) return options_.limit_s;
  return std::min(options_.limit_s, std::max(least_s, times * slowest_s_));
}

ChildEnd ChildJudge::run(const std::string& backend, const std::vector<std::string>& more) {
  std::vector<std::string> line = options_.arguments;
  line.push_back(options_.folder);
  if (!backend.empty()) line.insert(line.end(), {"--backend", backend});
  line.insert(line.end(), more.begin(), more.end());
  auto begin = std::chrono::steady_clock::now();
  stage_ = "start";
  ChildEnd end = watch_self(line, limit(), [this](std::string_view told) { hear(told); });
  std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  if (!end.timed_out) slowest_s_ = std::max(slowest_s_, took.count());
  return end;
}

void ChildJudge::hear(std::string_view told) {
  if (!told.starts_with(told_regions)) {
    stage_ = told;
    return;
  }
  told.remove_prefix(told_regions.size());
  std::from_chars(told.data(), told.data() + told.size(), n_regions_);
}

Failure ChildJudge::judge(const Candidate& candidate, const std::string& backend,
                          const BackendPart& part) {
  write_candidate(candidate, options_.folder);
  std::vector<std::string> more{"--judge", "--watched"};
  if (part.half != TrainingHalf::both)
    more.insert(more.end(), {"--half", std::string(name_of(part.half))});
  if (part.regions >= 0) more.insert(more.end(), {"--regions", std::to_string(part.regions)});
  Failure failure = failure_of(run(backend, more), stage_);
  if (!failure || options_.keep_error.empty()) return failure;
  if (failure.text.find(options_.keep_error) == std::string::npos) return {};
  failure.key = options_.keep_error;
  return failure;
}

KnownValues ChildJudge::known_values(const Candidate& candidate) {
  std::string path = (std::filesystem::path(options_.folder) / "known.safetensors").string();
  write_candidate(candidate, options_.folder);
  ChildEnd end = run("eager", {"--known-values", path});
  if (end.timed_out || end.signal || end.exit_status != 0) return {};
  return read_known_values(*candidate.graph, path);
}

Minified minify_in_children(ChildJudge& judge, const Candidate& whole, const std::string& backend,
                            const OnProgress& on_progress) {
  bool is_first = true;
  FailureJudge one = [&](const Candidate& candidate) {
    Failure failure = judge.judge(candidate, backend);
    if (std::exchange(is_first, false)) judge.set_haste(failure.kind == Failure::Kind::hang);
    return failure;
  };
  KnownValues known = judge.known_values(whole);
  Minified out = minify(whole, known, one, on_progress);
  judge.set_haste(false);
  bool hangs = out.failure.kind == Failure::Kind::hang;
  if (!hangs || is_same(judge.judge(out.smallest, backend), out.failure)) return out;
  FailureJudge with_patience = [&](const Candidate& c) { return judge.judge(c, backend); };
  return minify(whole, known, with_patience, on_progress);
}

void tell_parent(std::string_view stage) {
  std::string line = std::string(stage) + "\n";
  [[maybe_unused]] ssize_t n = ::write(child_lines_file, line.data(), line.size());
}

}  // namespace tenon
