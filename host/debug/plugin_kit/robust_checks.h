// The checks of level 3, each of a backend in a process of its own.
#pragma once

#include "debug/plugin_kit/check.h"
#include "debug/plugin_kit/graph_case.h"

#include <functional>
#include <span>
#include <string>

namespace tenon::kit {

// ---- robust_checks.cpp: what backends, kernels and ops are checked by

inline constexpr int n_threads = 8;
/// Runs `body` on that many threads, which begin each turn together. When all are through, the
/// first thing that was thrown is thrown here.
void on_threads(int turns, const std::function<void(int thread, int turn)>& body);
/// Inputs between guard zones, of a call that writes none of them and keeps none.
void expect_inputs_left_alone(const GraphCase& graph_case, std::span<const Tensor> inputs);

// ---- robust_calls.cpp: what a correct host does, all at once
void check_threads(Bench& bench, const std::string& backend);
void check_parallel_compile(Bench& bench, const std::string& backend);
void check_canaries(Bench& bench, const std::string& backend);
void check_longer_structs(Bench& bench, const std::string& backend);
void check_supports(Bench& bench, const std::string& backend);
void check_reset(Bench& bench, const std::string& backend);
void check_describe(Bench& bench, const std::string& backend);
void check_process_state(Bench& bench, const std::string& backend);

// ---- robust_faults.cpp: what goes wrong around it
void check_cancel(Bench& bench, const std::string& backend);
void check_out_of_memory(Bench& bench, const std::string& backend);
void check_damaged_cache(Bench& bench, const std::string& backend);
void check_unknown_op(Bench& bench, const std::string& backend);
void check_unknown_argument(Bench& bench, const std::string& backend);
void check_unknown_value(Bench& bench, const std::string& backend);
void check_request_flags(Bench& bench, const std::string& backend);
void check_no_options(Bench& bench, const std::string& backend);
void check_option_values(Bench& bench, const std::string& backend);

// ---- robust_lifetime.cpp: what stays behind
void check_serialize(Bench& bench, const std::string& backend);
void check_load_elsewhere(Bench& bench, const std::string& backend);
void check_damaged_artifact(Bench& bench, const std::string& backend);
/// Runs `work` in rounds until one of them leaves no more than the bytes allowed; what the last one
/// left.
int64_t growth_of_rounds(int64_t allowed_bytes, const std::function<void()>& work);
void check_memory_growth(Bench& bench, const std::string& backend);
void check_leaks(Bench& bench, const std::string& backend);

}  // namespace tenon::kit
