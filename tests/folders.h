// Where tests find their files: in the source tree, and among what was recorded of PyTorch.
//
// The recordings lie in tests/recordings as archives; CMake unpacks them into <build>/recordings.
// TENON_REFERENCE names another folder that holds ops/, partitioner/ and the other kinds, and
// TENON_SHARED one that holds models/, data/ and reference/.
#pragma once

#include <string>
#include <vector>

namespace tenon {

/// `name` in the source tree, such as "tests/data/models".
std::string source_path(const std::string& name);

/// `name` among the recordings of this project, such as "reference/partitioner/mlp_relu.json": for
/// a test that says what one of them holds.
std::string own_recording(const std::string& name);

/// The folder of one kind of recordings, such as "ops": for a test that takes all files there.
std::string reference_folder(const std::string& kind);

/// "models" or "data", likewise.
std::string shared_folder(const std::string& name);

/// The files of a folder whose names end with `ending`, sorted; none where there is no such folder.
std::vector<std::string> files_in(const std::string& folder, const std::string& ending);

/// What a test over a folder says that is empty.
std::string nothing_in(const std::string& folder);

}  // namespace tenon
