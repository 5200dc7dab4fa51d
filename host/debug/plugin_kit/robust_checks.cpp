// The list of level 3, and what its checks share with those of kernels and ops.
#include "debug/plugin_kit/robust_checks.h"

#include "core/tensor/tensor_impl.h"
#include "debug/plugin_kit/guarded_memory.h"

#include <barrier>
#include <exception>
#include <mutex>
#include <thread>

namespace tenon::kit {

void on_threads(int turns, const std::function<void(int thread, int turn)>& body) {
  std::barrier together(n_threads);
  std::mutex guards_first;
  std::exception_ptr first;
  auto run = [&](int thread) {
    for (int turn = 0; turn < turns; ++turn) {
      together.arrive_and_wait();
      try {  // in the turn: the others wait for each thread before the next one
        body(thread, turn);
      } catch (...) {
        std::lock_guard guard(guards_first);
        if (!first) first = std::current_exception();
      }
    }
  };
  std::vector<std::thread> threads;
  for (int t = 0; t < n_threads; ++t) threads.emplace_back(run, t);
  for (std::thread& t : threads) t.join();
  if (first) std::rethrow_exception(first);
}

void expect_inputs_left_alone(const GraphCase& c, std::span<const Tensor> inputs) {
  for (size_t i = 0; i < inputs.size(); ++i) {
    expect(same_bits(inputs[i], c.inputs[i]), "P23 input {} was written", i);
    std::string damage = damage_around(inputs[i]);
    expect(damage.empty(), "input {}: {}", i, damage);
    expect(impl_of(inputs[i])->references == 1, "P22 input {} is still held after the call", i);
  }
}

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
