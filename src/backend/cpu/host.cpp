#include "backend/cpu/host.hpp"

#include <algorithm>
#include <cstdio>

#include "backend/cpu/schedule.hpp"
#include "core/cpu_count.hpp"
#include "core/dtype.hpp"
#include "core/float_env.hpp"
#include "kernels/cpu/dispatch.hpp"

#if defined(__x86_64__)
#include "kernels/cpu/x86/cpuid.hpp"
#endif

namespace vfa {

namespace {

// Element `index` of an array whose elements have a size known at run time.
const void *at(const void *array, int64_t index, size_t bytes) {
    return static_cast<const char *>(array) + index * (int64_t)bytes;
}
void *at(void *array, int64_t index, size_t bytes) {
    return static_cast<char *>(array) + index * (int64_t)bytes;
}

class HostPlan final : public WorkPlan {
public:
    HostPlan(vfa_context &context, const Problem &problem, const cpu::Kernels &kernels,
             const char *family)
        : context_(context), problem_(problem), kernels_(kernels), family_(family),
          schedule_(&context.memory) {}

    void reserve(size_t num_seqs, int64_t max_keys) override {
        schedule_.reserve(num_seqs);
        context_.workspaces.reserve(workspace_bytes(max_keys));
    }

    void schedule(const Lengths &lengths) noexcept override {
        lengths_ = &lengths;
        max_keys_ = 0;
        for (size_t b = 0; b < lengths.num_seqs(); b++)
            max_keys_ = std::max(max_keys_, lengths.sequence(b).num_keys);
        schedule_.build(problem_, lengths, kernels_.rows_per_call(shape(max_keys_)));
    }

    void set_alibi(const float *slopes) noexcept override { slopes_ = slopes; }
    void set_sinks(const float *sinks) noexcept override { sinks_ = sinks; }

    void forward(const Buffers &buffers) const override {
        if (schedule_.num_units() == 0) return;
        WorkspacePool::Lease workspace(context_.workspaces, workspace_bytes(max_keys_));
        Job job{*this, buffers, workspace.data()};
        context_.parallel.run(
            schedule_.num_units(),
            [](void *argument, uint32_t index, uint32_t worker) {
                const Job &job = *static_cast<Job *>(argument);
                job.plan.run_unit(job, index, worker);
            },
            &job);
    }

    Info info() const noexcept override {
        Info info{schedule_.num_units(), workspace_bytes(max_keys_), ""};
        std::snprintf(info.kernel, sizeof info.kernel, "%s%s", family_, kernels_.name);
        return info;
    }

private:
    struct Job {
        const HostPlan &plan;
        const Buffers &buffers;
        std::byte *workspace;
    };

    cpu::Shape shape(int64_t max_keys) const {
        return {problem_.dtype, problem_.head_dim, problem_.head_dim_v, max_keys};
    }
    // Each worker has its own part; parts start on their own cache line.
    size_t worker_bytes(int64_t max_keys) const {
        return (kernels_.scratch_bytes(shape(max_keys)) + 63) / 64 * 64;
    }
    size_t workspace_bytes(int64_t max_keys) const {
        return worker_bytes(max_keys) * context_.parallel.max_workers();
    }

    void run_unit(const Job &job, uint32_t index, uint32_t worker) const {
        const DefaultFloatEnv environment;
        UnitCalls calls(*this, job, schedule_.unit(index),
                        job.workspace + worker * worker_bytes(max_keys_));
        // Each call is told the one after it.
        cpu::AttendArgs args[2];
        bool more = calls.next(args[0]);
        for (int at = 0; more; at ^= 1) {
            more = calls.next(args[at ^ 1]);
            args[at].next = more ? &args[at ^ 1] : nullptr;
            kernels_.attend[problem_.dtype](args[at]);
        }
    }

    // The kernel calls of a unit, one after the other.
    class UnitCalls {
    public:
        UnitCalls(const HostPlan &plan, const Job &job, const WorkUnit &unit, void *scratch)
            : plan_(plan), job_(job), unit_(unit), scratch_(scratch), seq_(unit.seq_begin) {
            enter_sequence();
        }

        bool next(cpu::AttendArgs &args) {
            if (seq_ == unit_.seq_end) return false;
            args = plan_.head_args(job_.buffers, sequence_, head_);
            args.scratch = scratch_;
            args.row_begin = row_;
            args.row_end = std::min(row_ + block_, row_end_);
            row_ = args.row_end;
            if (row_ == row_end_) {
                row_ = row_begin_;
                if (++head_ == unit_.head_end) {
                    seq_++;
                    enter_sequence();
                }
            }
            return true;
        }

    private:
        // From seq_ on to the first sequence that has rows.
        void enter_sequence() {
            for (; seq_ < unit_.seq_end; seq_++) {
                sequence_ = plan_.lengths_->sequence(seq_);
                const int64_t num_rows = sequence_.num_queries * plan_.problem_.group;
                if (num_rows == 0) continue;
                block_ = rows_per_block(num_rows,
                                        plan_.kernels_.rows_per_call(plan_.shape(plan_.max_keys_)));
                head_ = unit_.head_begin;
                row_begin_ = row_ = unit_.block_begin * block_;
                row_end_ =
                    unit_.block_end < 0 ? num_rows : std::min(unit_.block_end * block_, num_rows);
                return;
            }
        }

        const HostPlan &plan_;
        const Job &job_;
        const WorkUnit unit_;
        void *const scratch_;
        size_t seq_;
        Sequence sequence_{};
        int32_t head_ = 0;
        int64_t block_ = 0, row_begin_ = 0, row_end_ = 0, row_ = 0;
    };

    cpu::AttendArgs head_args(const Buffers &buffers, const Sequence &sequence,
                              int32_t head) const {
        const Problem &p = problem_;
        const size_t bytes = dtype_bytes(p.dtype), o_bytes = p.o_f32 ? sizeof(float) : bytes;
        const int64_t q = sequence.q_begin, k = sequence.k_begin;
        const int64_t q_head = (int64_t)head * p.group;
        cpu::AttendArgs args{};
        args.q = at(buffers.q, q * p.q.token + q_head * p.q.head, bytes);
        args.q_token_stride = p.q.token;
        args.q_head_stride = p.q.head;
        args.k = at(buffers.k, k * p.k.token + head * p.k.head, bytes);
        args.k_token_stride = p.k.token;
        args.v = at(buffers.v, k * p.v.token + head * p.v.head, bytes);
        args.v_token_stride = p.v.token;
        args.o = at(buffers.o, q * p.o.token + q_head * p.o.head, o_bytes);
        args.o_token_stride = p.o.token;
        args.o_head_stride = p.o.head;
        args.lse = buffers.lse ? buffers.lse + q * p.lse.token + q_head * p.lse.head : nullptr;
        args.lse_token_stride = p.lse.token;
        args.lse_head_stride = p.lse.head;
        args.group = p.group;
        args.head_dim = p.head_dim;
        args.head_dim_v = p.head_dim_v;
        args.visible = p.visible(sequence.num_queries, sequence.num_keys);
        args.scale = p.scale;
        args.softcap = p.softcap;
        args.alibi_slopes = slopes_ ? slopes_ + q_head : nullptr;
        args.alibi_offset = sequence.num_keys - sequence.num_queries;
        args.sinks = sinks_ ? sinks_ + q_head : nullptr;
        args.o_f32 = p.o_f32;
        return args;
    }

    vfa_context &context_;
    const Problem &problem_;
    const cpu::Kernels &kernels_;
    const char *family_; // in front of the kernels' name
    Schedule schedule_;
    const Lengths *lengths_ = nullptr;
    int64_t max_keys_ = 0;
    const float *slopes_ = nullptr, *sinks_ = nullptr;
};

class HostBackend final : public Backend {
public:
    using Choose = const cpu::Kernels &(*)(uint32_t isa_cap);
    constexpr HostBackend(vfa_backend id, const char *family, Choose choose) noexcept
        : id_(id), family_(family), choose_(choose) {}

    vfa_backend id() const noexcept override { return id_; }

    const char *unavailable(int32_t) const noexcept override { return nullptr; }

    void describe(int32_t, vfa_backend_info &info) const noexcept override {
        info.threads = allowed_cpus();
        std::snprintf(info.isa, sizeof info.isa, "%s", choose_(UINT32_MAX).name);
#if defined(__x86_64__)
        cpu::processor_name(info.device);
#endif
        if (!info.device[0]) std::snprintf(info.device, sizeof info.device, "this processor");
    }

    // Everything that validation lets through.
    Status supports(const Problem &) const noexcept override { return {}; }

    WorkPlan *make_plan(vfa_context &context, const Problem &problem) const override {
        void *memory = context.memory.allocate(sizeof(HostPlan), alignof(HostPlan));
        return new (memory) HostPlan(context, problem, choose_(context.options.isa_cap), family_);
    }

    void destroy_plan(vfa_context &context, WorkPlan *plan) const noexcept override {
        HostPlan *host = static_cast<HostPlan *>(plan);
        host->~HostPlan();
        context.memory.deallocate(host, sizeof(HostPlan), alignof(HostPlan));
    }

private:
    vfa_backend id_;
    const char *family_;
    Choose choose_;
};

} // namespace

const Backend &math_backend() noexcept {
    static constexpr HostBackend backend(
        VFA_BACKEND_MATH, "", [](uint32_t) -> const cpu::Kernels & { return cpu::math_kernels; });
    return backend;
}

const Backend &memory_efficient_backend() noexcept {
    static constexpr HostBackend backend(
        VFA_BACKEND_MEMORY_EFFICIENT, "",
        [](uint32_t) -> const cpu::Kernels & { return cpu::memory_efficient_kernels; });
    return backend;
}

const Backend &cpu_backend() noexcept {
    static constexpr HostBackend backend(VFA_BACKEND_CPU, "cpu/", cpu::best_tiled_kernels);
    return backend;
}

} // namespace vfa
