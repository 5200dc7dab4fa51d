// `tenon check`: models and ops against their recordings, on one or several backends.
#include "cli/check_isolated.h"
#include "cli/exit_status.h"
#include "cli/model_options.h"

#include "core/error.h"
#include "debug/op_check.h"

#include <algorithm>
#include <cmath>

namespace tenon::cli {

namespace {

struct CheckOptions {
  std::vector<std::string> paths, backends;
  std::string against = "reference";
  bool isolate = false, grad = false;
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
  if (!tensor.strides.empty()) out["strides"] = tensor.strides;
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
           {"fallback_ops", stats["extern_ops"]},
           {"tensors", Json::Array{}}};
  if (!result.note.empty()) out["note"] = result.note;
  if (!result.error.empty())
    out["code"] = static_cast<int>(exit_status_of(UserError(result.code, "")));
  else if (!result.ok)
    out["code"] = static_cast<int>(ExitStatus::check_failed);
  for (const CheckedTensor& tensor : result.tensors)
    out["tensors"].items().push_back(to_json(tensor));
  return out;
}

std::string scientific(const Json& value) {
  if (!value.is_number()) return "inf";
  char text[32];
  std::snprintf(text, sizeof text, "%.2e", value.number());
  return text;
}

void print_case(const Json& result, bool all_tensors) {
  bool ok = result["ok"].boolean();
  print(message("{} {} [{}]", ok ? "ok    " : "FAILED", result["case"].text(),
                result["backend"].text()));
  if (result["compile_ms"].number() > 0.0)
    print(message("  compiled in {} ms", std::round(result["compile_ms"].number() * 10) / 10));
  print("\n");
  if (!result["error"].is_null()) print("       " + result["error"].text() + "\n");
  if (result.find("note")) print("       " + result["note"].text() + "\n");
  for (const Json& tensor : result["tensors"]) {
    if (tensor["ok"].boolean() && !all_tensors) continue;
    print(message("       {} {}: max abs {}, max rel {}, cosine {}",
                  tensor["ok"].boolean() ? "ok" : "FAILED", tensor["name"].text(),
                  scientific(tensor["max_abs"]), scientific(tensor["max_rel"]),
                  tensor["cos"].is_number() ? tensor["cos"].number() : 0.0));
    if (tensor.find("problem")) print("; " + tensor["problem"].text());
    if (tensor.find("fp64_error"))
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
  settings.grad = options.grad;
  settings.mode = options.model.mode;
  settings.archive = pt2_options(options.model);
  settings.device = device_of(options.model);
  return settings;
}

std::vector<std::string> child_arguments(const CheckOptions& options, const Globals& globals) {
  std::vector<std::string> arguments{"--against=" + options.against};
  const ModelOptions& model = options.model;
  if (options.grad) arguments.push_back("--grad");
  if (!model.program.empty()) arguments.push_back("--program=" + model.program);
  if (!model.max_size.empty()) arguments.push_back("--max-size=" + model.max_size);
  if (model.no_crc) arguments.push_back("--no-crc");
  if (model.random_weights) arguments.push_back("--random-weights");
  if (!model.mode.empty()) arguments.push_back("--mode=" + model.mode);
  if (!model.device.empty()) arguments.push_back("--device=" + model.device);
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

/// What is checked together: a model with its recordings, or a file of op cases.
struct CheckedFile {
  std::string file, first_case;
  std::function<std::vector<CaseResult>(const std::string& backend)> check;
  bool is_op = false;
  bool has_code = false;  ///< of its own backend
};

std::vector<CheckedFile> checked_files(const ModelCases& found, const CheckSettings& settings) {
  std::vector<CheckedFile> files;
  for (const ModelCase& model : found.models)
    files.push_back({model.archive, model.recordings[0].name,
                     [&](const std::string& b) { return check_model(model, b, settings); }, false,
                     model.has_code});
  for (const std::string& file : found.op_cases)
    files.push_back({file, file,
                     [&](const std::string& b) { return check_op_file(file, b, settings); }, true,
                     false});
  return files;
}

std::vector<Json> run_file(const CheckedFile& file, const std::string& backend,
                           const CheckOptions& options, const Globals& globals) {
  std::vector<Json> results;
  if (options.isolate) {
    IsolatedRun run = check_isolated(file.file, backend, child_arguments(options, globals));
    for (const Json& result : run.cases) results.push_back(result);
    if (!run.error.empty()) results.push_back(failed_case(file.first_case, backend, run.error));
    return results;
  }
  for (const CaseResult& result : file.check(backend)) results.push_back(to_json(result));
  return results;
}

bool has_other_strides(const Json& result) {
  for (const Json& tensor : result["tensors"])
    if (tensor.find("strides")) return true;
  return false;
}

// The many small cases of an op are one line, but for those that fail.
void print_op_cases(const CheckedFile& file, const std::string& backend,
                    const std::vector<Json>& results, bool all) {
  auto passed = std::count_if(results.begin(), results.end(),
                              [](const Json& result) { return result["ok"].boolean(); });
  auto strides = std::count_if(results.begin(), results.end(), has_other_strides);
  bool ok = passed == static_cast<ptrdiff_t>(results.size());
  print(message("{} {} [{}]  {} of {} cases passed", ok ? "ok    " : "FAILED", file.file, backend,
                passed, results.size()));
  if (strides > 0) print(message(", {} with other strides", strides));
  print("\n");
  for (const Json& result : results)
    if (all || !result["ok"].boolean()) print_case(result, all);
}

int check(const CheckOptions& options, const Globals& globals) {
  if (globals.json) leave_stdout_to_json();
  ModelCases found = find_cases(options.paths);
  require(!found.models.empty() || !found.op_cases.empty(), ErrorCode::bad_file,
          "there is neither a NAME.pt2 with a NAME.io.safetensors nor a file of op cases in the "
          "paths");
  bool all_have_code =
      found.op_cases.empty() && std::ranges::all_of(found.models, &ModelCase::has_code);
  std::vector<std::string> backends, own{""};  // the name is in the file
  if (!all_have_code || !options.backends.empty()) backends = backend_names(options.backends);
  CheckSettings settings = settings_of(options);
  Json document{{"schema", 1}, {"cases", Json::Array{}}};
  int passed = 0;
  for (const CheckedFile& file : checked_files(found, settings)) {
    for (const std::string& backend : file.has_code ? own : backends) {
      std::vector<Json> results = run_file(file, backend, options, globals);
      if (!globals.json && file.is_op) print_op_cases(file, backend, results, globals.verbose > 0);
      for (Json& result : results) {
        passed += result["ok"].boolean() ? 1 : 0;
        if (!globals.json && !file.is_op) print_case(result, globals.verbose > 0);
        document["cases"].items().push_back(std::move(result));
      }
    }
  }
  document["passed"] = passed;
  document["failed"] = document["cases"].items().size() - static_cast<size_t>(passed);
  if (globals.json)
    print_json(document);
  else
    print(message("{} passed, {} failed\n", passed, document["failed"].integer()));
  return document["failed"].integer() == 0 ? 0 : static_cast<int>(ExitStatus::check_failed);
}

Action build_check(Options& app) {
  auto options = std::make_shared<CheckOptions>();
  app.add_option(
         "PATH", options->paths,
         "archives and .tenon files with recordings beside them, files of op cases, or folders")
      .required();
  app.add_option("--backend", options->backends, "backends, separated by commas").one_at_a_time();
  app.add_option("--against", options->against,
                 "what is right: reference, eager or fp64 (of models)")
      .one_of({"reference", "eager", "fp64"});
  app.add_flag("--grad", options->grad,
               "also the gradients of a model with a recorded loss, and its recorded SGD steps");
  app.add_flag("--isolate", options->isolate, "each file in a process of its own");
  add_model_options(app, options->model);
  return [options](const Globals& globals) { return check(*options, globals); };
}

}  // namespace

extern constinit const Verb verb_check{.name = "check",
                                       .summary = "runs models and compares with what was recorded",
                                       .example = "tenon check models/ --backend eager,aot_eager",
                                       .build = build_check};

}  // namespace tenon::cli
