// What the inputs of a graph are, and their values, as files.
#pragma once

#include <tenon/plugin.hpp>

#include <filesystem>
#include <string>

void write_file(const std::filesystem::path& path, const std::string& content);

/// One line an input: name, kind, dtype, sizes and strides; symbols by their hints.
std::string inputs_of(const tenon::plugin::graph& g);

/// The tensors of a call as safetensors: in.0, in.1, ... What is not on the CPU is left out.
void write_values(const std::filesystem::path& path, const tn_call& call);
