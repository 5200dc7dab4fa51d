// Checks models against their recordings: `tenon check` without its command line.
//
// A case is an archive NAME.pt2 or a file NAME.tenon with NAME.io.safetensors beside it, and
// NAME.alt.io.safetensors for other sizes; both recordings run the same compiled code. A tensor
// beyond its tolerance passes only if its error against the double-precision run is at most twice
// that of the recording.
#pragma once

#include "debug/compare.h"
#include "debug/double_run.h"
#include "model/model_runner.h"

#include <optional>
#include <string>
#include <vector>

namespace tenon {

struct RecordedFile {
  std::string name;  ///< "path/NAME", "path/NAME.alt"
  std::string file;
};

struct ModelCase {
  std::string archive;
  std::vector<RecordedFile> recordings;
  bool has_code = false;  ///< a .tenon file, which has its backend in it
};

struct ModelCases {
  std::vector<ModelCase> models;
  std::vector<std::string> op_cases;  ///< .safetensors files that are not recordings of models
};

/// The cases in files and, recursively, folders, in order of their paths. Throws UserError bad_file
/// for a path that does not exist and for a given archive without recordings.
ModelCases find_cases(const std::vector<std::string>& paths);

enum class Against { reference, eager, fp64 };

struct CheckSettings {
  Against against = Against::reference;
  bool grad = false;  ///< also gradients of the first result, and the losses of recorded steps
  std::string mode, options_toml;
  formats::Pt2Options archive;
  Device device = kCPU;  ///< of archives: where their weights are and the checked backend runs
};

struct CheckedTensor {
  std::string name;
  Comparison result;
  std::optional<double> double_error, allowed_error;  ///< where the double run decided
  std::string strides;  ///< of op cases: how the strides differ, beside the verdict
};

struct CaseResult {
  std::string name, backend;
  bool ok = false;
  std::string error;                     ///< empty when it ran
  ErrorCode code = ErrorCode::internal;  ///< of `error`
  double compile_ms = 0;                 ///< 0 where code of an earlier recording was used
  size_t compiles = 0;                   ///< of the archive so far
  std::string stats;                     ///< TN_DESC_STATS_JSON
  std::string note;                      ///< what explains the verdict, or empty
  std::vector<CheckedTensor> tensors;
};

/// Makes the error the result of a case.
void note_error(CaseResult& result, const std::exception& error);

/// One result per recording. Errors become results; only bugs of this function throw.
std::vector<CaseResult> check_model(const ModelCase& model, const std::string& backend,
                                    const CheckSettings& settings);

}  // namespace tenon
