// Executables whose kernels are code for blocks, as text and back.
//
//   program 3 <digest>
//   ...
//
// One token a number, texts in quotation marks, lists in brackets with their length in front; index
// expressions stand first, those they are made of before them. It is loopir/fields.h that says what
// follows what, so writing and reading agree.
#pragma once

#include <inductor_runtime/executable.h>

#include <memory>
#include <string>
#include <string_view>

namespace blocks {

std::string text_form(inductor::Executable& program);

/// Throws `error`: TN_DATA_LOSS for text that is damaged or belongs to another graph,
/// TN_FAILED_PRECONDITION for another version.
std::unique_ptr<inductor::Executable> parse_text_form(const tn_compile_request& request,
                                                      std::string_view text);

}  // namespace blocks
