// plan.hpp - a checked problem, the lengths of a batch, and the chosen backend's schedule for them.
#pragma once
#include <atomic>
#include <memory_resource>
#include <vector>

#include "backend/backend.hpp"
#include "core/context.hpp"
#include "core/memory.hpp"
#include "core/status.hpp"
#include "problem/problem.hpp"
#include "problem/validate.hpp"

namespace vfa {

// Many readers or one writer; nobody waits, the later one is refused.
class UseCount {
public:
    bool enter() noexcept; // a reader
    void leave() noexcept { users_.fetch_sub(1, std::memory_order_release); }
    bool lock() noexcept; // the writer
    void unlock() noexcept { users_.store(0, std::memory_order_release); }

private:
    std::atomic<int32_t> users_{0}; // -1: a writer
};

} // namespace vfa

struct vfa_plan final : vfa::Counted {
    static vfa::Status create(vfa_context &context, const vfa_attn_desc &desc,
                              const vfa::LengthArrays &arrays, vfa::Ref<vfa_plan> *plan);
    static void destroy(vfa_plan *plan) noexcept;

    vfa::Status update(const vfa::LengthArrays &arrays);
    vfa::Status set_alibi(const float *slopes, size_t len);
    vfa::Status set_sinks(const float *sinks, size_t len);
    vfa::Status forward(const vfa::HostTensors &tensors) const;
    vfa::Status get_info(vfa_plan_info *info) const;

    const vfa::Log &log() const noexcept { return context_->log; }

private:
    vfa_plan(vfa_context &context, const vfa::Problem &problem, const vfa::Backend &backend);
    ~vfa_plan();

    void set_lengths(const vfa::LengthArrays &arrays);
    vfa::Status change_per_head(std::pmr::vector<float> &copy, const float *values, size_t len,
                                const char *what,
                                void (vfa::WorkPlan::*set)(const float *) noexcept);

    vfa::Ref<vfa_context> context_;
    const vfa::Problem problem_;
    const vfa::Backend &backend_;
    vfa::WorkPlan *work_; // made and destroyed by backend_
    vfa::Lengths lengths_;
    std::pmr::vector<float> slopes_, sinks_; // [heads_q], or empty
    mutable vfa::UseCount uses_;
    mutable std::atomic<bool> used_{false}; // by a forward call
};
