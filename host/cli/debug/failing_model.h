// What minify and bisect have in common: the model that fails, how it is run, and the child processes
// that judge it.
#pragma once

#include "cli/model_options.h"
#include "cli/temporary_folder.h"
#include "debug/minify/child_judge.h"

#include <string>

namespace tenon::cli {

struct FailingModel {
  std::string subject;
  std::string backend;
  ModelOptions model;
  InputOptions inputs;
  bool grad = false;
  double limit_s = 60;
  std::string keep_error;
};

/// MODEL, --backend, --mode, --input, --inputs, --grad, --time, --keep-error, and those of archives.
void add_failing_model_options(Options& app, FailingModel& options);

/// The graph with the inputs that are given: by options, in the folder of a repro, by the archive
/// (its weights, and the recording beside it). A folder's flags count from here on.
Candidate read_candidate(const FailingModel& options);

/// The flags in `folder`, where there are some, count from here on. What is run again is not recorded
/// again.
void use_flags_of(const std::string& folder);

/// The backend by its name, the default one where none is given; throws for an unknown one.
std::string backend_of(const FailingModel& options);

/// Judges by `tenon minify FOLDER --judge` with the same flags and plugins.
class JudgeInChildren {
 public:
  JudgeInChildren(const FailingModel& options, const Globals& globals);
  ChildJudge& judge() { return judge_; }

 private:
  TemporaryFolder work_;
  ChildJudge judge_;
};

/// "12 nodes, 2 inputs, 1 output, 512 elements after 31 tries".
std::string to_text(const SearchProgress& progress);

/// The options of every verb, for a command line.
std::vector<std::string> arguments_of(const Globals& globals);

}  // namespace tenon::cli
