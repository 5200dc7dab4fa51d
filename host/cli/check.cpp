// `tenon check`: models against their recordings, on one or several backends.
#include "cli/check_isolated.h"
#include "cli/exit_status.h"
#include "cli/model_options.h"

#include "core/error.h"
#include "debug/model_check.h"

#include <cmath>

namespace tenon::cli {

namespace {

struct CheckOptions {
  std::vector<std::string> paths, backends;
  std::string against = "reference";
  bool isolate = false;
  ModelOptions model;
};

// Infinity and NaN have no spelling in JSON.
Json number(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

Json to_json(const CheckedTensor& tensor) {
  Json out{{"name", tensor.name},
           {"ok", tensor.result.ok},
           {"max_abs", number(tensor.result.max_abs)},
           {"max_rel", number(tensor.result.max_rel)},
           {"cos", number(tensor.result.cosine)}};
  if (!tensor.result.problem.empty()) out["problem"] = tensor.result.problem;
  if (tensor.double_error) {
    out["fp64_error"] = number(*tensor.double_error);
    out["fp64_allowed"] = number(*tensor.allowed_error);
  }
  return out;
}

Json to_json(const CaseResult& result) {
  Json stats = stats_of(result.stats);
  Json out{{"case", result.name},
           {"backend", result.backend},
           {"ok", result.ok},
           {"error", result.error.empty() ? Json(nullptr) : Json(result.error)},
           {"code", 0},
           {"compile_ms", result.compile_ms},
           {"compiles", result.compiles},
           {"fallback_ops", stats.value("extern_ops", Json::array())},
           {"tensors", Json::array()}};
  if (!result.error.empty())
    out["code"] = static_cast<int>(exit_status_of(UserError(result.code, "")));
  else if (!result.ok)
    out["code"] = static_cast<int>(ExitStatus::check_failed);
  for (const CheckedTensor& tensor : result.tensors) out["tensors"].push_back(to_json(tensor));
  return out;
}

std::string scientific(const Json& value) {
  if (!value.is_number()) return "inf";
  char text[32];
  std::snprintf(text, sizeof text, "%.2e", value.get<double>());
  return text;
}

void print_case(const Json& result, bool all_tensors) {
  bool ok = result["ok"];
  print(message("{} {} [{}]", ok ? "ok    " : "FAILED", result["case"].get<std::string>(),
                result["backend"].get<std::string>()));
  if (result["compile_ms"] > 0.0)
    print(message("  compiled in {} ms", std::round(result["compile_ms"].get<double>() * 10) / 10));
  print("\n");
  if (!result["error"].is_null()) print("       " + result["error"].get<std::string>() + "\n");
  for (const Json& tensor : result["tensors"]) {
    if (tensor["ok"] && !all_tensors) continue;
    print(message("       {} {}: max abs {}, max rel {}, cosine {}", tensor["ok"] ? "ok" : "FAILED",
                  tensor["name"].get<std::string>(), scientific(tensor["max_abs"]),
                  scientific(tensor["max_rel"]),
                  tensor["cos"].is_number() ? tensor["cos"].get<double>() : 0.0));
    if (tensor.contains("problem")) print("; " + tensor["problem"].get<std::string>());
    if (tensor.contains("fp64_error"))
      print(message("; error against double precision {}, allowed {}",
                    scientific(tensor["fp64_error"]), scientific(tensor["fp64_allowed"])));
    print("\n");
  }
}

CheckSettings settings_of(const CheckOptions& options) {
  CheckSettings settings;
  settings.against = options.against == "eager"  ? Against::eager
                     : options.against == "fp64" ? Against::fp64
                                                 : Against::reference;
  settings.mode = options.model.mode;
  settings.archive = pt2_options(options.model);
  return settings;
}

std::vector<std::string> child_arguments(const CheckOptions& options, const Globals& globals) {
  std::vector<std::string> arguments{"--against=" + options.against};
  const ModelOptions& model = options.model;
  if (!model.program.empty()) arguments.push_back("--program=" + model.program);
  if (!model.max_size.empty()) arguments.push_back("--max-size=" + model.max_size);
  if (model.no_crc) arguments.push_back("--no-crc");
  if (model.random_weights) arguments.push_back("--random-weights");
  if (!model.mode.empty()) arguments.push_back("--mode=" + model.mode);
  for (const std::string& s : globals.settings) arguments.push_back("--set=" + s);
  for (const std::string& p : globals.plugins) arguments.push_back("--plugin=" + p);
  for (const std::string& p : globals.plugin_path) arguments.push_back("--plugin-path=" + p);
  if (!globals.config_file.empty()) arguments.push_back("--config=" + globals.config_file);
  if (globals.threads > 0) arguments.push_back("--threads=" + std::to_string(globals.threads));
  return arguments;
}

Json failed_case(const std::string& name, const std::string& backend, const std::string& error) {
  CaseResult failed;
  failed.name = name;
  failed.backend = backend;
  failed.error = error;
  return to_json(failed);
}

std::vector<Json> run_case(const ModelCase& model, const std::string& backend,
                           const CheckOptions& options, const Globals& globals) {
  std::vector<Json> results;
  if (options.isolate) {
    IsolatedRun run = check_isolated(model.archive, backend, child_arguments(options, globals));
    for (const Json& result : run.cases) results.push_back(result);
    if (!run.error.empty())
      results.push_back(failed_case(model.recordings[0].name, backend, run.error));
    return results;
  }
  for (const CaseResult& result : check_model(model, backend, settings_of(options)))
    results.push_back(to_json(result));
  return results;
}

int check(const CheckOptions& options, const Globals& globals) {
  if (globals.json) leave_stdout_to_json();
  ModelCases found = find_cases(options.paths);
  std::vector<std::string> backends = backend_names(options.backends);
  require(!found.models.empty() || !found.op_cases.empty(), ErrorCode::bad_file,
          "there is no NAME.pt2 with a NAME.io.safetensors in the paths");
  require(!found.models.empty(), ErrorCode::unsupported,
          "{}: files of op cases are read by the test op_recordings, not by check; pass archives",
          found.op_cases.empty() ? "" : found.op_cases[0]);
  if (!found.op_cases.empty() && !globals.quiet)
    print_message(message("{} files of op cases are passed over", found.op_cases.size()));
  Json document{{"schema", 1}, {"cases", Json::array()}};
  int passed = 0;
  for (const ModelCase& model : found.models) {
    for (const std::string& backend : backends) {
      for (Json& result : run_case(model, backend, options, globals)) {
        passed += result["ok"] ? 1 : 0;
        if (!globals.json) print_case(result, globals.verbose > 0);
        document["cases"].push_back(std::move(result));
      }
    }
  }
  document["passed"] = passed;
  document["failed"] = document["cases"].size() - static_cast<size_t>(passed);
  if (globals.json)
    print_json(document);
  else
    print(message("{} passed, {} failed\n", passed, document["failed"].get<int>()));
  return document["failed"] == 0 ? 0 : static_cast<int>(ExitStatus::check_failed);
}

Action build(CLI::App& app) {
  auto options = std::make_shared<CheckOptions>();
  app.add_option("PATH", options->paths, "archives with recordings beside them, or folders")
      ->required();
  add_repeated(app, "--backend", options->backends, "backends, separated by commas");
  app.add_option("--against", options->against, "what is right: reference, eager or fp64")
      ->check(CLI::IsMember({"reference", "eager", "fp64"}));
  app.add_flag("--isolate", options->isolate, "each archive in a process of its own");
  add_model_options(app, options->model);
  return [options](const Globals& globals) { return check(*options, globals); };
}

}  // namespace

extern constinit const Verb verb_check{.name = "check",
                                       .summary = "runs models and compares with what was recorded",
                                       .example = "tenon check models/ --backend eager,aot_eager",
                                       .build = build};

}  // namespace tenon::cli
