// The parent's side of the conformance kit: which phases there are, their children, the verdict.
#include "debug/plugin_kit/kit.h"

#include "backend/find/note.h"
#include "core/error.h"
#include "debug/child_process.h"
#include "debug/plugin_kit/bench.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <span>

namespace tenon {

using namespace kit;

std::string name_of(KitStatus status) {
  constexpr const char* names[] = {"ok", "FAILED", "skipped", "warning"};
  return names[static_cast<size_t>(status)];
}

namespace {

/// Follows one child: its lines become results.
class PhaseReader {
 public:
  PhaseReader(std::span<const Check> checks, std::function<void(KitResult, bool crashed)> on_result)
      : checks_(checks), on_result_(std::move(on_result)) {}

  void read(std::string_view line) {
    if (line == "begin") {
      begin_ = std::chrono::steady_clock::now();
      running_ = true;
      where_.clear();
    } else if (line.starts_with("at ")) {
      where_ = unescaped(line.substr(3));
    } else if (line.starts_with("end ")) {
      ended_.status = static_cast<KitStatus>(line[4] - '0');
      ended_.graph = unescaped(line.substr(6));
    } else if (line.starts_with("why ")) {
      ended_.detail = unescaped(line.substr(4));
      finish(std::exchange(ended_, {}), false);
    } else if (line == "done") {
      done_ = true;
    }
  }

  /// Makes a result of the check that did not come back; false when the phase is over.
  bool take_end(const ChildEnd& end, double limit_s) {
    if (done_ || next_ >= checks_.size()) return false;
    KitResult result;
    result.status = KitStatus::failed;
    result.detail = how_it_ended(end, limit_s);
    if (!where_.empty()) result.detail += "; " + where_;
    result.log = end.log;
    finish(std::move(result), true);
    return next_ < checks_.size();
  }
  size_t next() const { return next_; }

 private:
  std::string how_it_ended(const ChildEnd& end, double limit_s) const {
    if (end.timed_out) {
      bool entry = checks_[next_].name == "load.entry";
      return message("{}did not return within {} s", entry ? "P17 " : "", limit_s);
    }
    if (end.signal)
      return message("crashed with signal {} ({})", end.signal, strsignal(end.signal));
    return message("ended the process with status {}", end.exit_status);
  }
  void finish(KitResult result, bool crashed) {
    std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - begin_;
    result.ms = running_ ? took.count() : 0;
    running_ = false;
    on_result_(std::move(result), crashed);
    ++next_;
  }

  std::span<const Check> checks_;
  std::function<void(KitResult, bool crashed)> on_result_;
  KitResult ended_;
  std::string where_;
  std::chrono::steady_clock::time_point begin_;
  size_t next_ = 0;
  bool running_ = false, done_ = false;
};

/// One run of the kit.
class Kit {
 public:
  Kit(const KitSettings& settings, const KitCommand& command,
      const std::function<void(const KitResult&)>& on_result)
      : settings_(settings), command_(command), on_result_(on_result) {}

  KitReport run() {
    if (!is_plugin()) return report_;
    FoundPluginPtr found = find_explicit(settings_.file);
    report_.plugin = found->manifest.name;
    report_.version = to_text(found->manifest.version);
    if (!found->usable) return refused(*found);
    checks_ = wanted_checks(*found, settings_);
    for (size_t begin = 0; begin < checks_.size();) {
      size_t end = begin;
      while (end < checks_.size() && checks_[end].phase == checks_[begin].phase) ++end;
      run_phase(std::span(checks_).subspan(begin, end - begin));
      begin = end;
    }
    bool failed = std::any_of(report_.results.begin(), report_.results.end(),
                              [](const KitResult& r) { return r.status == KitStatus::failed; });
    if (failed && report_.verdict == KitVerdict::conformant)
      report_.verdict = KitVerdict::not_conformant;
    return report_;
  }

 private:
  bool is_plugin() {
    Diagnosis d = read_note(settings_.file).diagnosis;
    if (!d) return true;
    bool foreign = d.fault == PluginFault::unreadable || d.fault == PluginFault::wrong_machine ||
                   d.fault == PluginFault::no_note;
    report_.verdict = foreign ? KitVerdict::not_a_plugin : KitVerdict::cannot_be_loaded;
    report_.reason = to_text(d);
    return false;
  }
  KitReport refused(const FoundPlugin& found) {
    report_.verdict = KitVerdict::cannot_be_loaded;
    report_.reason = to_text(found.diagnosis);
    return report_;
  }

  // After a crash the rest of the phase goes on in a new child.
  void run_phase(std::span<const Check> checks) {
    size_t next = 0;
    auto on_result = [&](KitResult r, bool crashed) {
      take(checks[next++], std::move(r), crashed);
    };
    if (checks[0].phase.empty()) {
      for (const Check& check : checks) on_result(run_in_place(check, settings_), false);
      return;
    }
    if (!can_load_) {
      KitResult skipped;
      skipped.detail = "the plugin cannot be loaded";
      while (next < checks.size()) on_result(skipped, false);
      return;
    }
    for (size_t first = 0; first < checks.size();) {
      PhaseReader reader(checks.subspan(first), on_result);
      ChildEnd end = watch_self(command_(checks[0].phase, first), settings_.time_limit,
                                [&](std::string_view line) { reader.read(line); });
      if (!reader.take_end(end, settings_.time_limit)) break;
      first += reader.next();
    }
  }

  void take(const Check& check, KitResult result, bool crashed) {
    result.name = check.name;
    result.backend = check.backend;
    result.level = check.level;
    result.section = check.section;
    bool failed = result.status == KitStatus::failed;
    if (failed && check.name == "load.entry") {
      can_load_ = false;
      if (!crashed) report_.verdict = KitVerdict::cannot_be_loaded;
      report_.reason = result.detail;
    }
    report_.results.push_back(std::move(result));
    on_result_(report_.results.back());
  }

  const KitSettings& settings_;
  const KitCommand& command_;
  const std::function<void(const KitResult&)>& on_result_;
  std::vector<Check> checks_;
  KitReport report_;
  bool can_load_ = true;
};

}  // namespace

KitReport check_plugin(const KitSettings& settings, const KitCommand& command,
                       const std::function<void(const KitResult&)>& on_result) {
  return Kit(settings, command, on_result).run();
}

}  // namespace tenon
