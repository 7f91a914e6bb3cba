// library.hpp - a libvfa to measure: the one that this program is linked with, or another by its path.
#pragma once
#include <string>
#include <vector>

#include <vfa/vfa.h>

#include "case.hpp"

namespace bench {

struct Library {
    decltype(&vfa_context_create) context_create;
    decltype(&vfa_context_destroy) context_destroy;
    decltype(&vfa_context_get_info) context_get_info;
    decltype(&vfa_plan_create) plan_create;
    decltype(&vfa_plan_destroy) plan_destroy;
    decltype(&vfa_plan_get_info) plan_get_info;
    decltype(&vfa_forward_host) forward_host;
    decltype(&vfa_forward_host_f32) forward_host_f32;
    decltype(&vfa_last_error) last_error;
};
Library linked_library();
Library load_library(const std::string &path); // throws std::runtime_error

// Numbers for a problem: packed tensors in its dtype.
struct Tensors {
    explicit Tensors(const conform::Case &problem);

    std::vector<int32_t> cu_seqlens_q, cu_seqlens_k;
    // One of the two is used, as the dtype says.
    std::vector<uint16_t> q16, k16, v16;
    std::vector<float> q32, k32, v32;
};

// A plan over tensors, ready to run again and again.
class Runner {
public:
    // Throws std::runtime_error with the library's sentence.
    Runner(const Library &library, const conform::Case &problem, const Tensors &tensors,
           vfa_backend backend, const std::string &max_isa, uint32_t threads);
    ~Runner();
    Runner(const Runner &) = delete;
    Runner &operator=(const Runner &) = delete;

    double run(); // one forward call; seconds
    uint32_t threads() const { return threads_; }
    const vfa_plan_info &info() const { return info_; }

private:
    void check(vfa_status status) const;

    const Library &library_;
    const Tensors &tensors_;
    const bool f32_;
    vfa_context *context_ = nullptr;
    vfa_plan *plan_ = nullptr;
    vfa_plan_info info_{};
    uint32_t threads_ = 0;
    std::vector<uint16_t> o16_;
    std::vector<float> o32_;
};

} // namespace bench
