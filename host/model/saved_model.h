// Models with their code in `.tenon` files: what `tenon compile` writes and tenon::load() maps.
//
// The sections of a file (formats/tenon_file.h):
//
//     manifest                 JSON: who wrote it, for which backend and device, how many versions
//     guards                   JSON: by version, the conditions on sizes under which its code holds
//     plan                     JSON: by version, of what its code is put together
//     graph/N, constant/DIGEST graphs that were compiled, and their constants
//     code/N                   bytes that a plugin saved
//     models/..., data/...     the program and its weights: records of the archive by their names
//
// Weights and constants are read where they are mapped, or brought to the device of the code. What is read is checked like any file; the
// machine code in it cannot be, so such a file is trusted, or refused, by who may have written it.
#pragma once

#include "formats/pt2/pt2_symbols.h"
#include "graph/artifact.h"
#include "model/shared_memory.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace tenon {

/// Code for some sizes.
struct SavedVersion {
  formats::Pt2SymbolValues hints;       ///< the sizes that it was compiled for, if others than
                                        ///< those of the archive
  std::vector<std::string> conditions;  ///< over the symbols of the imported graph
  CallMemory memory;
  SavedArtifact artifact;
};

struct SavedModel {
  std::shared_ptr<const formats::Pt2Program> program;
  std::string backend, mode, options_toml;  ///< for sizes that no version serves
  std::vector<SavedVersion> versions;
  Device device = kCPU;  ///< where its weights are and its code runs
};

/// `live`: weights that are not as in the archive any more, by the names of their records. Throws
/// UserError.
void write_saved_model(const std::string& path, const SavedModel& model,
                       const std::vector<std::pair<std::string, Tensor>>& live);

/// Throws UserError bad_file, BackendError where who may have written the file is not trusted.
/// `check_weights`: whether the digests of weights are looked at.
SavedModel read_saved_model(const std::string& path, bool check_weights = true);

/// Whether the file is one of these, by its first bytes. Throws UserError bad_file.
bool is_saved_model(const std::string& path);

}  // namespace tenon
