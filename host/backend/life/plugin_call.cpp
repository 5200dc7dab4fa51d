// The second net under the functions of plugins.
#include "backend/life/plugin_call.h"

#include "backend/abi/status.h"
#include "backend/catalog.h"
#include "report/log.h"
#include "report/stack.h"

#include <cxxabi.h>

#include <typeinfo>

namespace tenon {

namespace {

std::string type_in_flight() {
  const std::type_info* type = abi::__cxa_current_exception_type();
  return type ? report::demangled(type->name()) : "something that is not a C++ exception";
}

// Type and text of what is being handled.
std::string exception_in_flight() {
  std::string type = type_in_flight();
  try {
    throw;
  } catch (abi::__forced_unwind&) {
    throw;  // the thread is being cancelled: that must go on
  } catch (const std::exception& e) {
    return message("{}: {}", type, e.what());
  } catch (const std::string& text) {
    return message("{}: {}", type, text);
  } catch (const char* text) {
    return message("{}: {}", type, text ? text : "");
  } catch (int number) {
    return message("{}: {}", type, number);
  } catch (...) {
    return type;
  }
}

}  // namespace

Diagnosis PluginNet::describe_current(const std::string& path, std::string_view function) {
  return {PluginFault::threw, path, message("its {} threw {}", function, exception_in_flight()),
          "catch exceptions inside the plugin, as tenon/plugin.hpp does; until the process ends "
          "nothing more is compiled with it"};
}

static std::atomic<uint64_t> modes_restored{0};

uint64_t KeepsFloatMode::times_restored() { return modes_restored.load(); }

void KeepsFloatMode::restore(const FloatMode& now) noexcept {
  before_.set();
  modes_restored.fetch_add(1);
  try {
    Diagnosis d{PluginFault::contract_broken, path_,
                message("its {} changed the floating-point mode of the thread ({}), which was "
                        "restored",
                        function_, difference_of(before_, now)),
                "plugins leave it as it is; is a library linked with -ffast-math?"};
    report::warn_once("float mode " + path_, "backend", to_text(d));
  } catch (const std::exception&) {
    // There is no memory for the warning; the mode is what counts.
  }
}

tn_status* status_of_closed_gate() { return make_status(TN_FAILED_PRECONDITION, closed_text); }

Diagnosis PluginNet::diagnosis() const {
  std::lock_guard lock(first_lock_);
  return first_;
}

tn_status* PluginNet::caught(std::string_view function) {
  Diagnosis d = describe_current(path_, function);
  std::string text = to_text(d);
  {
    std::lock_guard lock(first_lock_);
    if (!first_) first_ = d;
    faulty_ = true;
  }
  plugin_catalog().set_state(path_, PluginState::faulty, std::move(d));
  return make_status(TN_INTERNAL, text);
}

Diagnosis PluginNet::note_broken(std::string problem) {
  Diagnosis d{PluginFault::contract_broken, path_, std::move(problem),
              "run `tenon plugin check` on it"};
  plugin_catalog().set_state(path_, PluginState::faulty, d);
  return d;
}

void PluginNet::broke_contract(ErrorCode code, std::string_view backend, std::string problem) {
  Diagnosis d = note_broken(std::move(problem));
  throw BackendError(code, TN_INTERNAL, message("backend {}: {}", backend, to_text(d)));
}

void log_and_free(const PluginNet& net, tn_status* status) noexcept {
  if (!status) return;
  report::log(report::LogLevel::warning, "backend", "plugin {}: {}", net.name(), status->text);
  free_status(status);
}

TextSink::TextSink()
    : sink_{&text_, [](void* to, const char* data, size_t n) {
              // The caller is the plugin: nothing may be thrown through it.
              free_status(guarded([&] { static_cast<std::string*>(to)->append(data, n); }));
            }} {}

}  // namespace tenon
