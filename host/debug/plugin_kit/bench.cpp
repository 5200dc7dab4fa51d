// The process of a phase: its plugin, its checks one after the other, and what it tells the parent.
#include "debug/plugin_kit/bench.h"

#include "backend/abi/bridge.h"
#include "backend/catalog.h"
#include "backend/abi/status.h"
#include "core/error.h"
#include "debug/child_process.h"
#include "debug/plugin_kit/check.h"
#include "debug/plugin_kit/watched_host.h"
#include "ops/op_table.h"

#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
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

void tell(const std::string& line) {
  std::string whole = line + "\n";
  [[maybe_unused]] ssize_t written = ::write(child_lines_file, whole.data(), whole.size());
}

}  // namespace

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

// ---- checks

namespace {

KitResult run_check(const Check& check, Bench& bench) {
  KitResult result;
  result.status = KitStatus::failed;
  try {
    check.run(bench);
    result.status = KitStatus::passed;
    std::string misuse = first_misuse();
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
  return result;
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
  Bench bench(settings);
  size_t index = 0;
  for (const Check& check : wanted_checks(bench.found(), settings)) {
    if (check.phase != phase || index++ < first_check) continue;
    tell("begin");
    KitResult result = run_check(check, bench);
    tell(message("end {} {}", static_cast<int>(result.status), escaped(result.graph)));
    tell("why " + escaped(result.detail));
  }
  tell("done");
  std::fflush(nullptr);
  ::_exit(0);  // the plugin's shutdown is a check of its own
}

}  // namespace tenon
