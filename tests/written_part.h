// A part of a page of docs/ that is written from the sources, between marks of its own.
#pragma once

#include "folders.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

namespace tenon {

/// The content of a file; empty where there is none.
inline std::string text_of(const std::string& path) {
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

/// Fails unless the part `name` of docs/PAGE is `expected`; with TENON_WRITE_DOCS=1 it is written.
/// `filter`: the tests to run for that.
inline void expect_written_part(const std::string& page, const std::string& name,
                                const std::string& expected, const std::string& filter) {
  const std::string path = source_path("docs/" + page);
  const std::string begin_mark = "<!-- " + name + ": begin -->\n",
                    end_mark = "<!-- " + name + ": end -->";
  std::string text = text_of(path);
  size_t begin = text.find(begin_mark), end = text.find(end_mark);
  ASSERT_NE(begin, std::string::npos) << page;
  ASSERT_NE(end, std::string::npos) << page;
  begin += begin_mark.size();
  if (text.substr(begin, end - begin) == expected) return;
  if (std::getenv("TENON_WRITE_DOCS")) {
    std::ofstream(path) << text.replace(begin, end - begin, expected);
    return;
  }
  FAIL() << "docs/" << page << " is older than the sources; write it anew with\n"
         << "  TENON_WRITE_DOCS=1 build/release/bin/unit_tests --gtest_filter=" << filter;
}

}  // namespace tenon
