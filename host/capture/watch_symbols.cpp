// Log lines about symbols.
#include "capture/watch_symbols.h"

#include "config/flags.h"
#include "report/log.h"
#include "report/stack.h"

namespace tenon {

void watch_symbols(ShapeEnv& env) {
  const config::ShapesFlags& flags = config::flags().shapes;
  ShapeEnv::Watch watch;
  watch.most_guards = flags.symbol_guard_limit_before_specialize;
  if (!flags.extended_debug_guard_added.empty())
    watch.guard_added = [&env, wanted = flags.extended_debug_guard_added](const Expr* condition) {
      if (env.text(condition) != wanted && env.source_text(condition) != wanted) return;
      report::log_line(report::LogLevel::warning, "dynamic",
                       message("guard {} was added\n{}", wanted, report::stack_text()));
    };
  if (!flags.extended_debug_create_symbol.empty())
    watch.symbol_made = [wanted = flags.extended_debug_create_symbol](const SymbolInfo& symbol) {
      if (symbol.name != wanted && symbol.source_text != wanted) return;
      report::log_line(report::LogLevel::warning, "dynamic",
                       message("symbol {} of {} was made\n{}", symbol.name, symbol.source_text,
                               report::stack_text()));
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
