// eager_debug: runs node by node and checks what each op wrote and aliased against its schema.
#pragma once

#include <tenon/plugin_program.hpp>

/// A graph whose ops are watched. An op that writes an argument, or gives a result in the storage
/// of an argument, without declaring so in its schema is an error that names op and argument.
class SchemaChecked {
 public:
  explicit SchemaChecked(const tn_compile_request& request);
  void call(tn_call& c);

 private:
  struct Declared {
    std::vector<std::string> names;
    std::vector<bool> writes, aliases;  // by argument
  };
  static Declared declared_by(uint32_t op);

  tenon::plugin::program program_;
  std::vector<Declared> declared_;  // by node
};
