// Log lines about symbols, and their values for code that the trace does not see.
#include "capture/watch_symbols.h"

#include "config/flags.h"
#include "core/sym/symbol_numbers.h"
#include "report/log.h"
#include "report/stack.h"

namespace tenon {

namespace {

void note_guard(const ShapeEnv& env, const std::string& wanted, const Expr* condition) {
  std::string text = env.text(condition), in_words = env.source_text(condition);
  report::log_artifact("trace_shape_events", message("condition {}: {}", text, in_words));
  if (wanted.empty() || (text != wanted && in_words != wanted)) return;
  report::log_line(report::LogLevel::warning, "dynamic",
                   message("guard {} was added\n{}", wanted, report::stack_text()));
}

void note_symbol(const std::string& wanted, const SymbolInfo& symbol) {
  report::log_artifact("trace_shape_events",
                       message("symbol {} of {}", symbol.name,
                               symbol.source_text.empty() ? "the data" : symbol.source_text));
  if (wanted.empty() || (symbol.name != wanted && symbol.source_text != wanted)) return;
  report::log_line(report::LogLevel::warning, "dynamic",
                   message("symbol {} of {} was made\n{}", symbol.name, symbol.source_text,
                           report::stack_text()));
}

// The place in the program that a condition remembers, where the log shows it.
std::string place_for_log() {
  if (!report::artifact_enabled("verbose_guards")) return "";
  std::string frame = report::program_stack(1);
  size_t begin = frame.find_first_not_of(" #0"), end = frame.find_last_not_of('\n');
  return begin == frame.npos ? "" : frame.substr(begin, end + 1 - begin);
}

const bool installed_watch_symbols = (user_location_slot = place_for_log, true);

}  // namespace

void watch_symbols(ShapeEnv& env) {
  const config::ShapesFlags& flags = config::flags().shapes;
  bool logs = report::artifact_enabled("trace_shape_events");
  ShapeEnv::Watch watch;
  watch.most_guards = flags.symbol_guard_limit_before_specialize;
  if (logs || !flags.extended_debug_guard_added.empty())
    watch.guard_added = [&env, wanted = flags.extended_debug_guard_added](const Expr* condition) {
      note_guard(env, wanted, condition);
    };
  logs = logs || !flags.extended_debug_create_symbol.empty();
  watch.symbol_made = [logs,
                       wanted = flags.extended_debug_create_symbol](const SymbolInfo& symbol) {
    keep_value(symbol.expr, symbol.hint, /*is_over=*/false);
    if (logs) note_symbol(wanted, symbol);
  };
  env.set_watch(std::move(watch));
}

void log_specializations(const ShapeEnv& env) {
  if (!config::flags().shapes.print_specializations) return;
  for (const Specialization& fixed : env.specializations()) {
    const SymbolInfo& symbol = env.info(fixed.symbol);
    report::log_line(report::LogLevel::warning, "dynamic",
                     message("{} became the constant {}", symbol.source_text, fixed.value));
  }
}

}  // namespace tenon
