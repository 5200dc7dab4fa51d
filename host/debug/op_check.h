// Checks recorded calls of ops on a backend: each call becomes a graph of one node, whose inputs
// are the tensors of the call.
#pragma once

#include "debug/model_check.h"

namespace tenon {

/// One result per recorded call, named "path/OP#N". Under Against::eager the host's eager kernels
/// are right, else the recording. Tolerances are those of op_compare.h, and those of models for f16
/// and bf16 results of ops with parts; a result beyond them passes if its error against the call in
/// double precision is at most twice that of what is right. Strides that differ are told beside the
/// verdict. Errors become results; a file that is not a recording, or of an op that is not known,
/// gives one.
std::vector<CaseResult> check_op_file(const std::string& file, const std::string& backend,
                                      const CheckSettings& settings);

}  // namespace tenon
