// The process of a phase: its plugin, its checks one after the other, and what it tells the parent.
#include "debug/plugin_kit/bench.h"

#include "backend/abi/bridge.h"
#include "backend/abi/status.h"
#include "backend/catalog.h"
#include "core/error.h"
#include "debug/child_process.h"
#include "debug/plugin_kit/check.h"
#include "debug/plugin_kit/watched_host.h"
#include "ops/op_table.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <filesystem>

namespace tenon::kit {

// ---- lines to the parent

std::string escaped(std::string_view text) {
  std::string out;
  for (char c : text) {
    if (c == '\\' || c == '\n') out += '\\';
    out += c == '\n' ? 'n' : c;
  }
  return out;
}

std::string unescaped(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    bool escape = text[i] == '\\' && i + 1 < text.size();
    if (escape) ++i;
    out += escape && text[i] == 'n' ? '\n' : text[i];
  }
  return out;
}

namespace {

std::string nonce;  // of this child
bool is_copy = false;
std::atomic<int> n_forks{0};

// A copy of this process, made by code of the plugin, has nothing to tell and nothing to do.
void tell(const std::string& line) {
  if (is_copy) ::_exit(0);
  std::string whole = nonce + " " + line + "\n";
  [[maybe_unused]] ssize_t written = ::write(child_lines_file, whole.data(), whole.size());
}

void keep_lines_to_this_process() {
  ::fcntl(child_lines_file, F_SETFD, FD_CLOEXEC);
  ::pthread_atfork(
      nullptr, [] { ++n_forks; },
      [] {
        ::close(child_lines_file);
        is_copy = true;
      });
}

}  // namespace

int forks_so_far() { return n_forks; }

// ---- the plugin

FoundPluginPtr find_explicit(const std::string& file) {
  std::error_code ignored;
  for (const FoundPluginPtr& p : plugin_catalog().list())
    if (p->source == PluginSource::file && std::filesystem::equivalent(p->path, file, ignored))
      return p;
  fail(ErrorCode::bad_file, "{}: is not there any more", file);
}

Bench::Bench(const KitSettings& settings)
    : settings_(settings), found_(find_explicit(settings.file)) {}

const LoadedPlugin& Bench::load() {
  if (loaded_) return *loaded_;
  if (&own_host_table() == host_table()) set_host_table(watched_host());
  loaded_ = &load_plugin(plugin_catalog(), found_);
  return *loaded_;
}

void Bench::shut_down() {
  if (!loaded_ || !loaded_->table.shutdown) return;
  tn_status* status = loaded_->table.shutdown();
  if (status) throw_status(status, ErrorCode::plugin, "shutdown");
}

void Bench::note(const std::string& where) { tell("at " + escaped(where)); }

std::string Bench::take_remarks() { return std::exchange(remarks_, {}); }

void Bench::remark(const std::string& text) { remarks_ += (remarks_.empty() ? "" : "; ") + text; }

bool Bench::is_faulty() const { return loaded_ && loaded_->net.is_faulty(); }

// ---- checks that end alike

void Repeats::take(const KitResult& result, const std::string& end) {
  if (result.backend.empty() || result.status == KitStatus::skipped) return;
  Row& row = rows_[result.backend];
  const std::string& text = end.empty() ? result.detail : end;
  bool failed = result.status == KitStatus::failed;
  if (!failed || text != row.text) row = {text, 0, !end.empty()};
  row.count += failed;
}

std::string Repeats::why_not_run(const std::string& backend) const {
  constexpr int most_ends = 3, most_failures = 5;
  auto row = rows_.find(backend);
  if (row == rows_.end() || row->second.count < (row->second.ended ? most_ends : most_failures))
    return "";
  return message("not run: the last {} checks of this backend ended alike: {}", row->second.count,
                 row->second.text);
}

// ---- checks

namespace {

KitResult run_check(const Check& check, Bench& bench) {
  KitResult result;
  result.status = KitStatus::failed;
  try {
    check.run(bench);
    result.status = KitStatus::passed;
    result.detail = bench.take_remarks();
    std::string misuse = take_first_misuse();
    if (!misuse.empty()) fail_check("{}", misuse);
  } catch (const CheckFailed& failed) {
    result.status = KitStatus::failed;
    result.detail = failed.why;
    result.graph = failed.graph;
  } catch (const CheckSkipped& skipped) {
    result.status = KitStatus::skipped;
    result.detail = skipped.why;
  } catch (const CheckWarned& warned) {
    result.status = KitStatus::warned;
    result.detail = warned.why;
  } catch (const std::exception& error) {
    result.detail = error.what();
  } catch (...) {
    result.detail = "P10 an exception of unknown type left one of its functions";
  }
  clear_host_faults();
  take_first_misuse();
  bench.take_remarks();
  return result;
}

KitResult skipped_check(const std::string& why) {
  KitResult result;
  result.detail = why;
  return result;
}

/// Runs the checks of a phase from number `first` on; false when the rest needs another process.
bool run_checks(const std::vector<Check>& checks, size_t first, Bench& bench) {
  Repeats repeats;
  for (size_t i = first; i < checks.size(); ++i) {
    tell("begin");
    std::string why = repeats.why_not_run(checks[i].backend);
    KitResult result = why.empty() ? run_check(checks[i], bench) : skipped_check(why);
    result.backend = checks[i].backend;
    tell(message("end {} {}", static_cast<int>(result.status), escaped(result.graph)));
    tell("why " + escaped(result.detail));
    repeats.take(result, "");
    // What comes after an exception would fail for that alone.
    if (bench.is_faulty() && i + 1 < checks.size()) return false;
  }
  return true;
}

}  // namespace

KitResult run_in_place(const Check& check, const KitSettings& settings) {
  Bench bench(settings);
  return run_check(check, bench);
}

}  // namespace tenon::kit

namespace tenon {

void run_kit_phase(const KitSettings& settings, const std::string& phase, size_t first_check) {
  using namespace kit;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // no child outlives the kit
  first_call_slot = [] {};             // what is right comes from the host's own kernels
  nonce = settings.nonce;
  keep_lines_to_this_process();
  Bench bench(settings);
  std::vector<Check> checks = wanted_checks(bench.found(), settings);
  std::erase_if(checks, [&](const Check& c) { return c.phase != phase; });
  tell(run_checks(checks, first_check, bench) ? "done" : "again");
  std::fflush(nullptr);
  ::_exit(0);  // the plugin's shutdown is a check of its own
}

}  // namespace tenon
