// Reading, checking and joining traces.
#include "cli/trace/trace_files.h"

#include "cli/output.h"
#include "core/error.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <vector>

namespace tenon::cli {

namespace {

namespace fs = std::filesystem;

Json::Array events_of(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  Json trace = formats::json_or_null(std::string(std::istreambuf_iterator<char>(in), {}));
  require(trace.is_array(), ErrorCode::bad_file, "{}: is not a trace: expected a list of events",
          file.string());
  Json::Array& events = trace.items();
  for (size_t i = 0; i < events.size(); ++i) {
    const Json& e = events[i];
    bool whole = e["ph"].is_text() && e["name"].is_text() && e["ts"].is_number() &&
                 e["pid"].is_integer() && e["tid"].is_integer();
    require(whole, ErrorCode::bad_file, "{}: event {} lacks ph, name, ts, pid or tid",
            file.string(), i);
  }
  return std::move(events);
}

// Ends what threads have begun, the innermost first.
void end_open_spans(Json::Array& events) {
  std::map<int64_t, Json::Array> open;  // by thread
  for (const Json& e : events) {
    Json::Array& spans = open[e["tid"].integer()];
    if (e["ph"].text() == "B") spans.push_back(e);
    if (e["ph"].text() == "E" && !spans.empty()) spans.pop_back();
  }
  if (events.empty()) return;
  const Json last = events.back()["ts"];
  for (auto& [thread, spans] : open)
    for (size_t i = spans.size(); i-- > 0;) {
      Json end = spans[i];
      end["ph"] = "E";
      end["ts"] = last;
      events.push_back(std::move(end));
    }
}

Json name_event(const char* what, const Json& process, int64_t thread, const std::string& name) {
  return {{"ph", "M"},
          {"name", what},
          {"pid", process},
          {"tid", thread},
          {"args", Json{{"name", name}}}};
}

void add_names(const Json::Array& events, const std::string& process_name, Json::Array& out) {
  if (events.empty()) return;
  const Json process = events[0]["pid"];
  out.push_back(name_event("process_name", process, 0, process_name));
  std::vector<int64_t> threads;
  for (const Json& e : events) threads.push_back(e["tid"].integer());
  std::ranges::sort(threads);
  auto repeated = std::ranges::unique(threads);
  threads.erase(repeated.begin(), repeated.end());
  for (int64_t thread : threads)
    out.push_back(name_event("thread_name", process, thread, message("thread {}", thread)));
}

}  // namespace

MergedTrace merge_traces(const std::string& folder, const std::string& command) {
  std::vector<fs::path> files;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    std::string name = entry.path().filename().string();
    if (name.starts_with("trace") && name.ends_with(".json")) files.push_back(entry.path());
  }
  std::ranges::sort(files);
  MergedTrace out;
  Json::Array names, all;
  for (const fs::path& file : files) {
    Json::Array events = events_of(file);
    if (events.empty()) continue;
    ++out.n_processes;
    out.n_events += events.size();
    bool is_first = file.filename() == "trace.json";
    add_names(events,
              is_first ? command : message("child {} of {}", events[0]["pid"].dump(), command),
              names);
    end_open_spans(events);
    for (Json& e : events) all.push_back(std::move(e));
  }
  auto begins = [](const Json& e) { return e["ts"].number(); };
  std::stable_sort(all.begin(), all.end(),
                   [&](const Json& a, const Json& b) { return begins(a) < begins(b); });
  for (Json& e : all) names.push_back(std::move(e));
  out.json = Json{{"displayTimeUnit", "ms"}, {"traceEvents", std::move(names)}}.dump() + "\n";
  return out;
}

}  // namespace tenon::cli
