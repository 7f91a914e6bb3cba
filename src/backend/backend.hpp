// backend.hpp - what a backend is: can it be used here, does it serve this problem, and a work plan
// for given lengths.
#pragma once
#include <cstdint>

#include "core/context.hpp"
#include "core/memory.hpp"
#include "core/status.hpp"
#include "problem/problem.hpp"

namespace vfa {

// A problem with a backend's schedule for the lengths of a batch. Immutable between updates.
class WorkPlan {
public:
    virtual ~WorkPlan() = default;

    // In two steps, so that a failure changes nothing: all memory first (throws std::bad_alloc),
    // then the schedule, which cannot fail. lengths outlive the call of schedule.
    virtual void reserve(size_t num_seqs, int64_t max_keys) = 0;
    virtual void schedule(const Lengths &lengths) noexcept = 0;

    // Per q head; null: none. They stay where they are as long as the plan lives.
    virtual void set_alibi(const float *slopes) noexcept = 0;
    virtual void set_sinks(const float *sinks) noexcept = 0;

    // Throws std::bad_alloc, before anything is written.
    virtual void forward(const Buffers &buffers) const = 0;

    struct Info {
        uint64_t num_work_units, workspace_bytes;
        char kernel[64];
    };
    virtual Info info() const noexcept = 0;
};

class Backend {
public:
    virtual vfa_backend id() const noexcept = 0;

    // Why the backend cannot be used here, a sentence; null if it can. Cheap: asked for each plan.
    virtual const char *unavailable(int32_t device) const noexcept = 0;

    // Describes an available backend: every field of info but struct_size, available, resolved and
    // reason. May look at the machine.
    virtual void describe(int32_t device, vfa_backend_info &info) const noexcept = 0;

    // VFA_OK, or UNSUPPORTED with the reason. Only for a backend that is available.
    virtual Status supports(const Problem &problem) const noexcept = 0;

    // The work plan lives in context.memory; see destroy. context and problem outlive it.
    virtual WorkPlan *make_plan(vfa_context &context, const Problem &problem) const = 0;
    virtual void destroy_plan(vfa_context &context, WorkPlan *plan) const noexcept = 0;

protected:
    ~Backend() = default;
};

// A backend by its own name; null for AUTO, VARLEN and unknown values.
const Backend *find_backend(vfa_backend id) noexcept;

// The backend that serves the problem: the one that it names, or for AUTO and VARLEN the first
// usable one of their order. Else BACKEND_UNAVAILABLE or UNSUPPORTED with the reasons.
Status resolve_backend(const Problem &problem, int32_t device, const Backend **backend) noexcept;

// The answer of vfa_backend_query for any valid id, AUTO and VARLEN included.
void describe_backend(vfa_backend id, int32_t device, vfa_backend_info &info) noexcept;

} // namespace vfa
