// Checks recorded calls of ops on a backend: each call becomes a graph of one node, whose inputs
// are the tensors of the call.
#pragma once

#include "debug/model_check.h"

namespace tenon {

/// One result per recorded call, named "path/OP#N". Under Against::eager the host's eager kernels
/// are right, else the recording; strides that differ are told beside the verdict. Errors become
/// results; a file that is no recording, or of an op that is not known, gives one.
std::vector<CaseResult> check_op_file(const std::string& file, const std::string& backend,
                                      const CheckSettings& settings);

}  // namespace tenon
