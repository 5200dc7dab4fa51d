// One row for each format.
#include "mutants/mutant.h"

#include "mutants/file_mutant.h"
#include "mutants/graph_text_mutant.h"
#include "mutants/json_mutant.h"

#include <algorithm>

namespace tenon::fuzz {

namespace {

std::string archive_mutant(std::string_view seed, Choices& choices) {
  return choices.one_in(10) ? zip_mutant(seed, choices) : records_mutant(seed, choices);
}

constexpr Format rows[] = {
    {.name = "pt2", .targets = "pt2", .mutate = archive_mutant},
    {.name = "tenon", .targets = "saved_model", .mutate = records_mutant},
    {.name = "tenon_bytes", .targets = "tenon_file", .mutate = bytes_mutant},
    {.name = "graph_text", .targets = "graph_text graph_run", .mutate = graph_text_mutant},
    {.name = "graph_json", .targets = "graph_json", .mutate = json_mutant},
    {.name = "cache_entry", .targets = "cache_entry", .mutate = records_mutant},
    {.name = "cache_bundle", .targets = "cache_bundle", .mutate = bytes_mutant},
    {.name = "safetensors", .targets = "safetensors", .mutate = safetensors_mutant},
};

}  // namespace

const Format& find_format_of_mutants(std::string_view name) {
  const Format* found = std::ranges::find(rows, name, &Format::name);
  check(found != std::end(rows),
        message("there are no mutants of {}; see mutants/mutant.cpp", name));
  return *found;
}

}  // namespace tenon::fuzz
