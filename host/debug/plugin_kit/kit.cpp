// The parent's side of the conformance kit: which phases there are, their children, the verdict.
#include "debug/plugin_kit/kit.h"

#include "backend/find/note.h"
#include "core/error.h"
#include "debug/child_process.h"
#include "debug/plugin_kit/bench.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <random>
#include <span>

namespace tenon {

using namespace kit;

std::string name_of(KitStatus status) {
  constexpr const char* names[] = {"ok", "FAILED", "skipped", "warning"};
  return names[static_cast<size_t>(status)];
}

namespace {

/// Gets the result of each check, and how the child ended where it did not come back from it.
using OnResult = std::function<void(KitResult, const std::string& end)>;

// The hint of a bad manifest names this check, which has no more to say.
std::string reason_of(Diagnosis d) {
  if (d.fault == PluginFault::bad_manifest) d.hint.clear();
  return to_text(d);
}

/// Follows one child: its lines become results. Code of the plugin may write into the same file, so
/// a line counts only where it begins with the child's nonce and says what can come next.
class PhaseReader {
 public:
  PhaseReader(std::span<const Check> checks, std::string nonce, OnResult on_result)
      : checks_(checks), nonce_(std::move(nonce)), on_result_(std::move(on_result)) {}

  void read(std::string_view line) {
    if (!line.starts_with(nonce_) || next_ >= checks_.size()) return;
    line.remove_prefix(nonce_.size());
    if (line == " begin") {
      begin_ = std::chrono::steady_clock::now();
      running_ = true;
      where_.clear();
    } else if (line == " done" || line == " again") {
      closed_ = true;
      done_ = line == " done";
    } else if (running_) {
      read_of_check(line);
    }
  }

  /// Makes a result of the check that did not come back; false when the phase is over.
  bool take_end(const ChildEnd& end, double limit_s) {
    if (done_ || next_ >= checks_.size()) return false;
    if (closed_) return true;
    std::string how = how_it_ended(end, limit_s);
    KitResult result;
    result.status = KitStatus::failed;
    result.detail = where_.empty() ? how : how + "; " + where_;
    result.log = end.log;
    finish(std::move(result), how);
    return next_ < checks_.size();
  }
  size_t next() const { return next_; }

 private:
  void read_of_check(std::string_view line) {
    if (line.starts_with(" at ")) {
      where_ = unescaped(line.substr(4));
    } else if (line.size() >= 7 && line.starts_with(" end ") && line[5] >= '0' && line[5] <= '3') {
      ended_.status = static_cast<KitStatus>(line[5] - '0');
      ended_.graph = unescaped(line.substr(7));
      has_ended_ = true;
    } else if (line.starts_with(" why ") && std::exchange(has_ended_, false)) {
      ended_.detail = unescaped(line.substr(5));
      finish(std::exchange(ended_, {}), "");
    }
  }
  std::string how_it_ended(const ChildEnd& end, double limit_s) const {
    if (end.timed_out) {
      bool entry = checks_[next_].name == "load.entry";
      return message("{}did not return within {} s", entry ? "P17 " : "", limit_s);
    }
    if (end.signal)
      return message("crashed with signal {} ({})", end.signal, strsignal(end.signal));
    return message("ended the process with status {}", end.exit_status);
  }
  void finish(KitResult result, const std::string& end) {
    std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - begin_;
    result.ms = running_ ? took.count() : 0;
    running_ = false;
    ++next_;
    on_result_(std::move(result), end);
  }

  std::span<const Check> checks_;
  std::string nonce_;
  OnResult on_result_;
  KitResult ended_;
  std::string where_;
  std::chrono::steady_clock::time_point begin_;
  size_t next_ = 0;
  bool running_ = false, has_ended_ = false, done_ = false, closed_ = false;
};

std::string random_nonce() {
  std::random_device random;
  uint64_t word = (uint64_t{random()} << 32) | random();
  return message("tenon{}", word);
}

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
    report_.reason = reason_of(d);
    return false;
  }
  KitReport refused(const FoundPlugin& found) {
    report_.verdict = KitVerdict::cannot_be_loaded;
    report_.reason = reason_of(found.diagnosis);
    return report_;
  }

  // After a crash the rest of the phase goes on in a new child.
  void run_phase(std::span<const Check> checks) {
    size_t next = 0;
    OnResult on_result = [&](KitResult r, const std::string& end) {
      take(checks[next++], std::move(r), end);
    };
    if (checks[0].phase.empty()) {
      for (const Check& check : checks) on_result(run_in_place(check, settings_), "");
      return;
    }
    while (next < checks.size()) {
      std::string why = why_not_run(checks[next]);
      if (!why.empty()) {
        on_result(skipped(why), "");
        continue;
      }
      size_t first = next;
      std::string nonce = random_nonce();
      std::vector<std::string> arguments = command_(checks[0].phase, first);
      arguments.push_back("--nonce=" + nonce);
      PhaseReader reader(checks.subspan(first), nonce, on_result);
      ChildEnd end = watch_self(arguments, settings_.time_limit,
                                [&](std::string_view line) { reader.read(line); });
      if (!reader.take_end(end, settings_.time_limit)) break;
    }
  }

  std::string why_not_run(const Check& check) const {
    return can_load_ ? repeats_.why_not_run(check.backend) : "the plugin cannot be loaded";
  }
  static KitResult skipped(const std::string& why) {
    KitResult result;
    result.detail = why;
    return result;
  }

  void take(const Check& check, KitResult result, const std::string& end) {
    result.name = check.name;
    result.backend = check.backend;
    result.level = check.level;
    result.section = check.section;
    repeats_.take(result, end);
    bool failed = result.status == KitStatus::failed;
    if (failed && check.name == "load.entry") {
      can_load_ = false;
      if (end.empty()) report_.verdict = KitVerdict::cannot_be_loaded;
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
  Repeats repeats_;
  bool can_load_ = true;
};

}  // namespace

KitReport check_plugin(const KitSettings& settings, const KitCommand& command,
                       const std::function<void(const KitResult&)>& on_result) {
  return Kit(settings, command, on_result).run();
}

}  // namespace tenon
