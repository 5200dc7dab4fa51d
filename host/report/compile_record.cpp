// Records of compilations: the ring, the file of records and the profile.
#include "report/compile_record.h"

#include "config/flags.h"
#include "report/dumps.h"
#include "report/log.h"

#include <unistd.h>

#include <atomic>

#include <chrono>
#include <deque>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <utility>

namespace tenon::report {

namespace {

struct Ring {
  std::mutex records_mutex;
  std::deque<CompileRecord> records;
};

Ring& ring() {
  static Ring& ring = *new Ring();
  return ring;
}

thread_local CompileWatch* current_watch = nullptr;

int64_t now_us() {
  using namespace std::chrono;
  return duration_cast<microseconds>(steady_clock::now().time_since_epoch()).count();
}

double milliseconds(int64_t us) { return static_cast<double>(us) / 1000; }

void keep(const CompileRecord& record) {
  constexpr size_t most_records = 64;
  std::lock_guard lock(ring().records_mutex);
  ring().records.push_back(record);
  if (ring().records.size() > most_records) ring().records.pop_front();
}

void write(const CompileRecord& record) {
  std::string line = to_json(record);
  log_artifact("metrics", line);
  const std::string& root = config::flags().dynamo.debug_dir_root;
  std::error_code error;
  if (!std::filesystem::is_directory(root, error)) return;
  std::lock_guard lock(ring().records_mutex);
  std::ofstream(root + "/metrics.jsonl", std::ios::app) << line + "\n";
}

}  // namespace

std::string to_json(const CompileRecord& record) {
  std::map<std::string_view, int64_t> phases;
  for (const CompilePhase& p : record.phases) phases[p.name] += p.end_us - p.begin_us;
  std::string ms;
  for (const auto& [name, us] : phases)
    ms += message("{}{}:{}", ms.empty() ? "" : ",", json_text(name), milliseconds(us));
  return message(
      "{{\"id\":{},\"site\":{},\"backend\":{},\"outcome\":{},\"ms\":{{{}}},\"ops\":{},"
      "\"guards\":{},\"symbols\":{},\"entries\":{},\"cache\":{}}}",
      json_text(record.id), json_text(record.site), json_text(record.backend),
      json_text(record.outcome), ms, record.n_ops, record.n_guards, record.n_symbols,
      record.n_entries, json_text(record.cache));
}

std::vector<CompileRecord> compile_records() {
  std::lock_guard lock(ring().records_mutex);
  return {ring().records.begin(), ring().records.end()};
}

void forget_compile_records() {
  std::lock_guard lock(ring().records_mutex);
  ring().records.clear();
}

CompileWatch::CompileWatch(std::string id, std::string site)
    : time_(Work::compile), outer_(std::exchange(current_watch, this)), begun_us_(now_us()) {
  record_.id = std::move(id);
  record_.site = std::move(site);
  record_.phases.push_back({"compile", 0, 0, 0});
  depth_ = 1;
  counter("frames.total").add();
}

CompileWatch::~CompileWatch() {
  current_watch = outer_;
  record_.phases[0].end_us = now_us() - begun_us_;
  if (record_.outcome.empty()) record_.outcome = "failed";
  try {
    write_profile();
    if (!config::flags().dynamo.log_compilation_metrics) return;
    keep(record_);
    write(record_);
  } catch (const std::exception& error) {  // what is told about a compilation must not stop it
    log_line(LogLevel::warning, "report", error.what());
  }
}

CompileWatch* CompileWatch::current() { return current_watch; }

// Complete events, "X", in the format of chrome://tracing.
void CompileWatch::write_profile() const {
  std::string prefix = config::flags().dynamo.cprofile;
  if (prefix.empty() || prefix == "false" || prefix == "0") return;
  std::string id = record_.id, text = "[\n";
  for (char& c : id)
    if (c == '/') c = '_';
  for (const CompilePhase& p : record_.phases)
    text += message(
        "{}{{\"ph\":\"X\",\"name\":{},\"cat\":\"compile\",\"ts\":{},\"dur\":{},"
        "\"pid\":{},\"tid\":1,\"args\":{{\"id\":{}}}}}",
        p.depth ? ",\n" : "", json_text(p.name), begun_us_ + p.begin_us, p.end_us - p.begin_us,
        ::getpid(), json_text(record_.id));
  text += "\n]\n";
  if (prefix == "true" || prefix == "1")
    write_dump(dump_folder(record_.id), "profile.json", text);
  else
    std::ofstream(prefix + id + ".json", std::ios::binary) << text;
}

// By number of its work, which is one word.
static constinit std::atomic<int> newest_work{-1};

std::string_view newest_phase() {
  int work = newest_work.load(std::memory_order_relaxed);
  return work < 0 ? std::string_view() : name_of(static_cast<Work>(work));
}

PhaseScope::PhaseScope(std::string_view name)
    : time_(work_of(name)),
      watch_(CompileWatch::current()),
      span_(name, "compile", watch_ ? std::string_view(watch_->record_.id) : "") {
  newest_work.store(static_cast<int>(work_of(name)), std::memory_order_relaxed);
  if (!watch_) return;
  index_ = watch_->record_.phases.size();
  watch_->record_.phases.push_back({name, now_us() - watch_->begun_us_, 0, watch_->depth_++});
}

PhaseScope::~PhaseScope() {
  newest_work.store(-1, std::memory_order_relaxed);
  if (!watch_) return;
  std::vector<CompilePhase>& phases = watch_->record_.phases;
  phases[index_].end_us = now_us() - watch_->begun_us_;
  --watch_->depth_;
  // The phase around it goes on.
  size_t i = index_;
  while (i > 0 && phases[i - 1].end_us != 0) --i;
  if (i > 0)
    newest_work.store(static_cast<int>(work_of(phases[i - 1].name)), std::memory_order_relaxed);
}

}  // namespace tenon::report
