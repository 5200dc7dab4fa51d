// Writes what is needed to see a bug again.
#include "cli/repro.h"

#include "core/cpu_level.h"
#include "core/shell_word.h"
#include "core/version.h"

#include <tenon/config.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace tenon::cli {

std::string write_repro(const std::vector<std::string>& arguments, std::string_view what) noexcept {
  try {
    std::string folder = std::filesystem::temp_directory_path() / "tenon-repro-XXXXXX";
    if (mkdtemp(folder.data()) == nullptr) return "";
    std::ofstream command(folder + "/command.sh");
    command << "#!/bin/sh\n# Run in " << std::filesystem::current_path().string() << "\ntenon";
    for (const std::string& argument : arguments) command << ' ' << shell_word(argument);
    command << '\n';
    std::ofstream(folder + "/message.txt")
        << what << "\ntenon " << version << ", CPU level " << name_of(cpu_level()) << '\n';
    std::ofstream(folder + "/flags.toml") << config::save();
    return folder;
  } catch (...) {
    return "";
  }
}

}  // namespace tenon::cli
