// What an error says, for tests that compare whole messages.
#pragma once

#include <exception>
#include <string>

namespace tenon {

/// The message of the Error that `body` throws, "no error" where it returns; other kinds pass.
template <class Error = std::exception, class F>
std::string message_of(F&& body) {
  try {
    body();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

}  // namespace tenon
