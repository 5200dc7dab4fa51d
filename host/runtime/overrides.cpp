// Parsing of overrides.
#include "runtime/overrides.h"

#include "backend/backend.h"
#include "core/error.h"
#include "core/function_ref.h"

#include <atomic>
#include <charconv>

namespace tenon {

uint32_t next_compile_number() {
  static std::atomic<uint32_t> next{0};
  return next.fetch_add(1, std::memory_order_relaxed);
}

namespace {

struct Rules {
  std::string_view flag, text;

  [[noreturn]] void fail_at(std::string_view part) const {
    fail(ErrorCode::config,
         "{} = \"{}\": `{}` is not a filter; write filter:value;filter:value with a filter such as "
         "0,5 or 10-20 or >10 or <=5",
         flag, text, part);
  }

  int64_t number(std::string_view part) const {
    int64_t value = 0;
    auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), value);
    if (part.empty() || error != std::errc() || end != part.data() + part.size()) fail_at(part);
    return value;
  }

  bool holds(std::string_view filter, int64_t n) const {
    if (filter.starts_with(">=")) return n >= number(filter.substr(2));
    if (filter.starts_with("<=")) return n <= number(filter.substr(2));
    if (filter.starts_with('>')) return n > number(filter.substr(1));
    if (filter.starts_with('<')) return n < number(filter.substr(1));
    bool any = false;
    std::vector<std::string> parts = config::split(filter, ',');
    if (parts.empty()) fail_at(filter);
    for (const std::string& part : parts) {
      size_t dash = part.find('-');
      int64_t first = number(std::string_view(part).substr(0, dash));
      int64_t last =
          dash == std::string::npos ? first : number(std::string_view(part).substr(dash + 1));
      if (last < first) fail_at(filter);
      any = any || (n >= first && n <= last);
    }
    return any;
  }
};

}  // namespace

namespace {

// `check`: of the value of each rule, also of those that do not hold.
std::optional<std::string> checked_override(const Rules& rules, int64_t number,
                                            FunctionRef<void(const std::string&)> check) {
  std::optional<std::string> found;
  for (const std::string& rule : config::split(rules.text, ';')) {
    size_t colon = rule.find(':');
    if (colon == std::string::npos || colon + 1 == rule.size()) rules.fail_at(rule);
    bool holds = rules.holds(std::string_view(rule).substr(0, colon), number);
    std::string value = rule.substr(colon + 1);
    check(value);
    if (holds && !found) found = std::move(value);
  }
  return found;
}

}  // namespace

std::optional<std::string> override_for(std::string_view flag, std::string_view rules,
                                        int64_t number) {
  return checked_override({flag, rules}, number, [](const std::string&) {});
}

std::optional<std::string> backend_override(int64_t number) {
  const std::string& rules = config::flags().dynamo.debug_backend_override;
  if (rules.empty()) return std::nullopt;
  return checked_override({"dynamo.debug_backend_override", rules}, number,
                          [](const std::string& name) { backend_info(name); });
}

namespace {

/// A flag whose rules have `key=value,key=value` as values.
struct SettingRules {
  std::string_view flag, module;
  const std::string& rules;

  /// Of the rule that holds for `number`, as lines of TOML.
  std::string toml(int64_t number) const {
    auto check = [&](const std::string& settings) {
      config::check_options(toml_of(settings), message("{} = \"{}\"", flag, rules));
    };
    return toml_of(checked_override({flag, rules}, number, check).value_or(""));
  }

 private:
  std::string toml_of(const std::string& settings) const {
    std::string out;
    for (const std::string& setting : config::split(settings, ',')) {
      size_t equals = setting.find('=');
      require(equals != std::string::npos, ErrorCode::config,
              "{} = \"{}\": `{}` has no value; write key=value", flag, rules, setting);
      std::string key = setting.substr(0, equals);
      if (key.find('.') == std::string::npos) key = message("{}.{}", module, key);
      out += message("{} = {}\n", key, setting.substr(equals + 1));
    }
    return out;
  }
};

}  // namespace

config::CompileOptions flag_override(int64_t number) {
  const config::DynamoFlags& flags = config::flags().dynamo;
  std::string toml;
  for (const SettingRules& one : {SettingRules{"dynamo.debug_dynamo_config_override", "dynamo",
                                               flags.debug_dynamo_config_override},
                                  SettingRules{"dynamo.debug_inductor_config_override", "inductor",
                                               flags.debug_inductor_config_override}})
    if (!one.rules.empty()) toml += one.toml(number);
  return toml.empty() ? nullptr : config::check_options(toml);
}

}  // namespace tenon
