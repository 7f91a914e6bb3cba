#include "plan/plan.hpp"

#include <algorithm>

namespace vfa {

bool UseCount::enter() noexcept {
    int32_t users = users_.load(std::memory_order_relaxed);
    while (users >= 0)
        if (users_.compare_exchange_weak(users, users + 1, std::memory_order_acquire)) return true;
    return false;
}

bool UseCount::lock() noexcept {
    int32_t none = 0;
    return users_.compare_exchange_strong(none, -1, std::memory_order_acquire);
}

namespace {

// Leaves or unlocks a UseCount at the end of a scope.
template <void (UseCount::*release)() noexcept> struct Releases {
    UseCount &uses;
    ~Releases() { (uses.*release)(); }
};

Status in_use() {
    return fail(VFA_ERROR_INVALID_STATE,
                "the plan is in use by another call, and cannot be changed");
}

} // namespace

} // namespace vfa

using namespace vfa;

vfa_plan::vfa_plan(vfa_context &context, const Problem &problem, const Backend &backend)
    : context_(Ref<vfa_context>::share(&context)), problem_(problem), backend_(backend),
      work_(backend.make_plan(context, problem_)), lengths_(&context.memory),
      slopes_(&context.memory), sinks_(&context.memory) {}

vfa_plan::~vfa_plan() { backend_.destroy_plan(*context_, work_); }

Status vfa_plan::create(vfa_context &context, const vfa_attn_desc &desc, const LengthArrays &arrays,
                        Ref<vfa_plan> *plan) {
    Problem problem;
    VFA_TRY(validate_attn(desc, &problem));
    VFA_TRY(validate_lengths(problem, arrays));
    const Backend *backend = nullptr;
    VFA_TRY(resolve_backend(problem, context.options.device, &backend));

    void *memory = context.memory.allocate(sizeof(vfa_plan), alignof(vfa_plan));
    try {
        *plan = Ref<vfa_plan>::adopt(new (memory) vfa_plan(context, problem, *backend));
    } catch (...) {
        context.memory.deallocate(memory, sizeof(vfa_plan), alignof(vfa_plan));
        throw;
    }
    (*plan)->set_lengths(arrays);
    return {};
}

void vfa_plan::destroy(vfa_plan *plan) noexcept {
    Ref<vfa_context> context = Ref<vfa_context>::share(plan->context_.get());
    plan->~vfa_plan();
    context->memory.deallocate(plan, sizeof(vfa_plan), alignof(vfa_plan));
}

// arrays are checked. Throws std::bad_alloc, and then nothing has changed.
void vfa_plan::set_lengths(const LengthArrays &arrays) {
    const size_t num_seqs = arrays.cu_seqlens_q.empty() ? 0 : arrays.cu_seqlens_q.size() - 1;
    const size_t room = std::max(num_seqs, (size_t)problem_.reserve_seqs);
    int64_t max_keys = 0;
    for (size_t b = 0; b < num_seqs; b++)
        max_keys = std::max<int64_t>(max_keys, arrays.cu_seqlens_k[b + 1] - arrays.cu_seqlens_k[b]);
    lengths_.reserve(room);
    work_->reserve(room, max_keys);
    lengths_.assign(arrays);
    work_->schedule(lengths_);
}

Status vfa_plan::update(const LengthArrays &arrays) {
    VFA_TRY(validate_lengths(problem_, arrays));
    if (!uses_.lock()) return in_use();
    const Releases<&UseCount::unlock> unlock{uses_};
    set_lengths(arrays);
    return {};
}

Status vfa_plan::change_per_head(std::pmr::vector<float> &copy, const float *values, size_t len,
                                 const char *what, void (WorkPlan::*set)(const float *) noexcept) {
    if (!uses_.lock()) return in_use();
    const Releases<&UseCount::unlock> unlock{uses_};
    if (used_.load(std::memory_order_relaxed))
        return fail(VFA_ERROR_INVALID_STATE,
                    "%s are set before a plan's first forward, not after it", what);
    copy.assign(values, values + len);
    (work_->*set)(copy.data());
    return {};
}

Status vfa_plan::set_alibi(const float *slopes, size_t len) {
    VFA_TRY(validate_alibi(problem_, slopes, len));
    return change_per_head(slopes_, slopes, len, "slopes", &WorkPlan::set_alibi);
}

Status vfa_plan::set_sinks(const float *sinks, size_t len) {
    VFA_TRY(validate_sinks(problem_, sinks, len));
    return change_per_head(sinks_, sinks, len, "sinks", &WorkPlan::set_sinks);
}

Status vfa_plan::forward(const HostTensors &tensors) const {
    if (!uses_.enter())
        return fail(VFA_ERROR_INVALID_STATE, "the plan is being changed by another call");
    const Releases<&UseCount::leave> leave{uses_};
    VFA_TRY(validate_tensors(problem_, lengths_, tensors));
    used_.store(true, std::memory_order_relaxed);
    work_->forward({tensors.q, tensors.k, tensors.v, tensors.o, tensors.lse});
    return {};
}

Status vfa_plan::get_info(vfa_plan_info *info) const {
    if (!uses_.enter())
        return fail(VFA_ERROR_INVALID_STATE, "the plan is being changed by another call");
    const Releases<&UseCount::leave> leave{uses_};
    const WorkPlan::Info work = work_->info();
    *info = {};
    info->backend = backend_.id();
    info->num_seqs = lengths_.num_seqs();
    info->total_q = (uint64_t)lengths_.total_q();
    info->total_k = (uint64_t)lengths_.total_k();
    info->num_work_units = work.num_work_units;
    info->workspace_bytes = work.workspace_bytes;
    std::copy(std::begin(work.kernel), std::end(work.kernel), info->kernel);
    double pairs = 0; // may pass 2^64 where no buffer ever could
    for (size_t b = 0; b < lengths_.num_seqs(); b++) {
        const Sequence s = lengths_.sequence(b);
        info->max_seqlen_q = std::max(info->max_seqlen_q, (uint64_t)s.num_queries);
        info->max_seqlen_k = std::max(info->max_seqlen_k, (uint64_t)s.num_keys);
        pairs +=
            (double)visible_pairs(problem_.visible(s.num_queries, s.num_keys), 0, s.num_queries);
    }
    const double flops = pairs * 2 * (problem_.head_dim + problem_.head_dim_v) * problem_.heads_q;
    info->flops = (uint64_t)std::min(flops, 0x1p63);
    return {};
}
