// The list of level 3.
#include "debug/plugin_kit/robust_checks.h"

namespace tenon::kit {

void add_robust_checks(std::vector<Check>& checks, const BackendManifest& backend) {
  struct Row {
    const char *name, *section;
    void (*run)(Bench&, const std::string&);
    const char* needs = "";
  };
  static constexpr Row rows[] = {
      {"threads", "6", check_threads},
      {"parallel_compile", "6", check_parallel_compile},
      {"canaries", "11", check_canaries},
      {"longer_structs", "4", check_longer_structs},
      {"supports", "11", check_supports},
      {"reset", "11", check_reset},
      {"describe", "12", check_describe},
      {"process_state", "5", check_process_state},
      {"cancel", "14", check_cancel},
      {"out_of_memory", "14", check_out_of_memory},
      {"damaged_cache", "14", check_damaged_cache},
      {"unknown_op", "5", check_unknown_op},
      {"unknown_argument_kind", "8", check_unknown_argument},
      {"unknown_value_kind", "8", check_unknown_value},
      {"unknown_request_flags", "4", check_request_flags},
      {"options_missing", "14", check_no_options},
      {"option_values", "3", check_option_values},
      {"serialize", "12", check_serialize},
      {"load_in_new_process", "12", check_load_elsewhere, "robust.serialize"},
      {"damaged_artifact", "12", check_damaged_artifact},
      {"memory_growth", "21", check_memory_growth},
      {"leaks", "6", check_leaks},
  };
  for (const Row& row : rows)
    checks.push_back({message("robust.{}", row.name), backend.name, 3, row.section,
                      message("robust.{} {}", row.name, backend.name),
                      [&row, name = backend.name](Bench& bench) { row.run(bench, name); },
                      row.needs});
}

}  // namespace tenon::kit
