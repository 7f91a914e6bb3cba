// The bodies of the C API: a guard, then one call inwards.
#include <vfa/vfa.h>

#include <cstdio>
#include <iterator>

#include "api/boundary.hpp"
#include "api/names.hpp"
#include "api/structs.hpp"
#include "backend/backend.hpp"
#include "kernels/cpu/dispatch.hpp"
#include "plan/plan.hpp"

using namespace vfa;

namespace {

#define VFA_TEXT_(x) #x
#define VFA_TEXT(x) VFA_TEXT_(x)
#if defined(__clang__)
#define VFA_COMPILER "clang " VFA_TEXT(__clang_major__) "." VFA_TEXT(__clang_minor__)
#else
#define VFA_COMPILER "gcc " VFA_TEXT(__GNUC__) "." VFA_TEXT(__GNUC_MINOR__)
#endif
#if defined(__x86_64__)
#define VFA_MACHINE "x86_64"
#elif defined(__aarch64__)
#define VFA_MACHINE "aarch64"
#else
#define VFA_MACHINE "portable"
#endif

LengthArrays length_arrays(const int32_t *cu_seqlens_q, size_t cu_seqlens_q_len,
                           const int32_t *cu_seqlens_k, size_t cu_seqlens_k_len,
                           const int32_t *seqused_q, size_t seqused_q_len, const int32_t *seqused_k,
                           size_t seqused_k_len) {
    return {{cu_seqlens_q, cu_seqlens_q_len},
            {cu_seqlens_k, cu_seqlens_k_len},
            {seqused_q, seqused_q_len},
            {seqused_k, seqused_k_len}};
}

Status read_attn(const vfa_attn_desc *desc, vfa_attn_desc *full) {
    VFA_TRY(validate_pointer("desc", desc));
    return read_struct("desc", "vfa_attn_desc_init", desc, full);
}

// An info struct that the caller wants filled.
template <class T> Status check_info(const char *init, const T *info) {
    VFA_TRY(validate_pointer("info", info));
    return check_struct_size("info", init, info->struct_size);
}

Status create_context(const vfa_context_desc *desc, const vfa_hooks *hooks,
                      Ref<vfa_context> *context) {
    vfa_context_desc full_desc = defaults<vfa_context_desc>();
    if (desc) VFA_TRY(read_struct("desc", "vfa_context_desc_init", desc, &full_desc));
    vfa_hooks full_hooks = defaults<vfa_hooks>();
    if (hooks) VFA_TRY(read_struct("hooks", "vfa_hooks_init", hooks, &full_hooks));

    std::vector<const char *> isa_names;
    for (uint32_t i = 0; i < cpu::isa_count(); i++) isa_names.push_back(cpu::isa(i).kernels->name);
    ContextOptions options;
    const Status status =
        validate_context(full_desc, hooks ? &full_hooks : nullptr, isa_names, &options);
    if (!status.ok()) { // no context yet to log it
        Log(full_hooks, full_desc.log_level).write(VFA_LOG_ERROR, drafted_sentence());
        return status;
    }
    *context = vfa_context::create(options);

    const uint32_t workers = (*context)->parallel.max_workers();
    const Log &log = (*context)->log;
    if (!options.hooks.parallel && workers < options.threads)
        log.print(VFA_LOG_WARN, "%u threads were to be started, but only %u could be",
                  options.threads, workers);
    else if (!options.hooks.parallel && workers < full_desc.num_threads)
        log.print(VFA_LOG_WARN, "num_threads is %u, but affinity and cgroup quota allow %u",
                  full_desc.num_threads, workers);
    log.print(VFA_LOG_INFO, "vfa %s: %u threads, CPU kernels for %s", vfa_version_string(), workers,
              cpu::best_tiled_kernels(options.isa_cap).name);
    return {};
}

// The context of vfa_varlen_forward: made at its first call, ended with the process or dlclose.
Status shared_context(vfa_context **context) {
    static Ref<vfa_context> shared = [] {
        Ref<vfa_context> made;
        return create_context(nullptr, nullptr, &made).ok() ? std::move(made) : Ref<vfa_context>();
    }();
    if (!shared.get()) return fail(VFA_ERROR_INTERNAL, "the shared context could not be made");
    *context = shared.get();
    return {};
}

Status varlen_forward(vfa_dtype dtype, const HostTensors &tensors, const LengthArrays &arrays,
                      uint32_t heads_q, uint32_t heads_kv, uint32_t head_dim, int32_t max_seqlen_q,
                      int32_t max_seqlen_k, float scale, vfa_causal causal) {
    vfa_attn_desc desc = defaults<vfa_attn_desc>();
    desc.dtype = dtype;
    desc.heads_q = heads_q;
    desc.heads_kv = heads_kv;
    desc.head_dim = head_dim;
    desc.max_seqlen_q = max_seqlen_q;
    desc.max_seqlen_k = max_seqlen_k;
    desc.scale_mode = VFA_SCALE_GIVEN;
    desc.scale = scale;
    desc.causal = causal;
    vfa_context *context = nullptr;
    VFA_TRY(shared_context(&context));
    Ref<vfa_plan> plan;
    VFA_TRY(vfa_plan::create(*context, desc, arrays, &plan));
    return plan->forward(tensors);
}

const Log *log_of(const vfa_context *context) { return context ? &context->log : nullptr; }
const Log *log_of(const vfa_plan *plan) { return plan ? &plan->log() : nullptr; }

vfa_status forward(const vfa_plan *plan, const HostTensors &tensors, vfa_error *error) {
    return guard(error, log_of(plan), [&]() -> Status {
        VFA_TRY(validate_pointer("plan", plan));
        return plan->forward(tensors);
    });
}

} // namespace

// ------------------------------------------------------------------------- version and errors

uint32_t vfa_version(void) {
    return VFA_VERSION_MAJOR << 16 | VFA_VERSION_MINOR << 8 | VFA_VERSION_PATCH;
}

const char *vfa_version_string(void) {
    return VFA_TEXT(VFA_VERSION_MAJOR) "." VFA_TEXT(VFA_VERSION_MINOR) "." VFA_TEXT(
        VFA_VERSION_PATCH) " (" VFA_COMPILER ", " VFA_MACHINE ")";
}

const char *vfa_status_name(vfa_status status) { return status_name(status); }

const char *vfa_last_error(void) { return last_error(); }

// ------------------------------------------------------------------------------------ backends

const char *vfa_backend_name(vfa_backend backend) { return backend_name(backend); }

vfa_status vfa_backend_from_name(const char *name, vfa_backend *backend_out) {
    return guard(nullptr, nullptr, [&]() -> Status {
        VFA_TRY(validate_pointer("name", name));
        VFA_TRY(validate_pointer("backend_out", backend_out));
        return backend_from_name(name, backend_out);
    });
}

vfa_status vfa_backend_info_init(vfa_backend_info *info, size_t size) {
    return guard(nullptr, nullptr, [&] { return init_struct("info", info, size); });
}

vfa_status vfa_backend_query(vfa_backend backend, int32_t device, vfa_backend_info *info) {
    return guard(nullptr, nullptr, [&]() -> Status {
        VFA_TRY(check_info("vfa_backend_info_init", info));
        VFA_TRY(validate_query(backend, device));
        vfa_backend_info full = {};
        describe_backend(backend, device, full);
        write_struct(full, info);
        return {};
    });
}

vfa_status vfa_isa_info_init(vfa_isa_info *info, size_t size) {
    return guard(nullptr, nullptr, [&] { return init_struct("info", info, size); });
}

uint32_t vfa_isa_count(void) { return cpu::isa_count(); }

vfa_status vfa_isa_query(uint32_t index, vfa_isa_info *info) {
    return guard(nullptr, nullptr, [&]() -> Status {
        VFA_TRY(check_info("vfa_isa_info_init", info));
        VFA_TRY(validate_index("index", index, cpu::isa_count()));
        const cpu::Isa &isa = cpu::isa(index);
        vfa_isa_info full = {};
        full.available = isa.available();
        std::snprintf(full.name, sizeof full.name, "%s", isa.kernels->name);
        if (!full.available)
            std::snprintf(full.reason, sizeof full.reason, "this processor lacks one of %s",
                          isa.needs);
        write_struct(full, info);
        return {};
    });
}

// ------------------------------------------------------------------------------------- context

vfa_status vfa_hooks_init(vfa_hooks *hooks, size_t size) {
    return guard(nullptr, nullptr, [&] { return init_struct("hooks", hooks, size); });
}

vfa_status vfa_context_desc_init(vfa_context_desc *desc, size_t size) {
    return guard(nullptr, nullptr, [&] { return init_struct("desc", desc, size); });
}

vfa_status vfa_context_create(const vfa_context_desc *desc, const vfa_hooks *hooks,
                              vfa_context **ctx_out, vfa_error *error) {
    return guard(error, nullptr, [&]() -> Status {
        VFA_TRY(validate_pointer("ctx_out", ctx_out));
        *ctx_out = nullptr;
        Ref<vfa_context> context;
        VFA_TRY(create_context(desc, hooks, &context));
        *ctx_out = context.detach();
        return {};
    });
}

void vfa_context_destroy(vfa_context *ctx) {
    if (ctx) Ref<vfa_context>::adopt(ctx);
}

vfa_status vfa_context_info_init(vfa_context_info *info, size_t size) {
    return guard(nullptr, nullptr, [&] { return init_struct("info", info, size); });
}

vfa_status vfa_context_get_info(const vfa_context *ctx, vfa_context_info *info) {
    return guard(nullptr, log_of(ctx), [&]() -> Status {
        VFA_TRY(validate_pointer("ctx", ctx));
        VFA_TRY(check_info("vfa_context_info_init", info));
        vfa_context_info full = {};
        full.num_threads = ctx->parallel.max_workers();
        full.device = ctx->options.device;
        std::snprintf(full.isa, sizeof full.isa, "%s",
                      cpu::best_tiled_kernels(ctx->options.isa_cap).name);
        write_struct(full, info);
        return {};
    });
}

// ---------------------------------------------------------------------------------------- plan

vfa_status vfa_attn_desc_init(vfa_attn_desc *desc, size_t size) {
    return guard(nullptr, nullptr, [&] { return init_struct("desc", desc, size); });
}

vfa_status vfa_attn_supported(vfa_context *ctx, const vfa_attn_desc *desc,
                              vfa_backend *resolved_out, vfa_error *error) {
    return guard(error, log_of(ctx), [&]() -> Status {
        VFA_TRY(validate_pointer("ctx", ctx));
        vfa_attn_desc full;
        VFA_TRY(read_attn(desc, &full));
        Problem problem;
        VFA_TRY(validate_attn(full, &problem));
        const Backend *backend = nullptr;
        VFA_TRY(resolve_backend(problem, ctx->options.device, &backend));
        if (resolved_out) *resolved_out = backend->id();
        return {};
    });
}

vfa_status vfa_plan_create(vfa_context *ctx, const vfa_attn_desc *desc, const int32_t *cu_seqlens_q,
                           size_t cu_seqlens_q_len, const int32_t *cu_seqlens_k,
                           size_t cu_seqlens_k_len, const int32_t *seqused_q, size_t seqused_q_len,
                           const int32_t *seqused_k, size_t seqused_k_len, vfa_plan **plan_out,
                           vfa_error *error) {
    return guard(error, log_of(ctx), [&]() -> Status {
        VFA_TRY(validate_pointer("ctx", ctx));
        VFA_TRY(validate_pointer("plan_out", plan_out));
        *plan_out = nullptr;
        vfa_attn_desc full;
        VFA_TRY(read_attn(desc, &full));
        Ref<vfa_plan> plan;
        VFA_TRY(vfa_plan::create(*ctx, full,
                                 length_arrays(cu_seqlens_q, cu_seqlens_q_len, cu_seqlens_k,
                                               cu_seqlens_k_len, seqused_q, seqused_q_len,
                                               seqused_k, seqused_k_len),
                                 &plan));
        *plan_out = plan.detach();
        return {};
    });
}

vfa_status vfa_plan_update(vfa_plan *plan, const int32_t *cu_seqlens_q, size_t cu_seqlens_q_len,
                           const int32_t *cu_seqlens_k, size_t cu_seqlens_k_len,
                           const int32_t *seqused_q, size_t seqused_q_len, const int32_t *seqused_k,
                           size_t seqused_k_len, vfa_error *error) {
    return guard(error, log_of(plan), [&]() -> Status {
        VFA_TRY(validate_pointer("plan", plan));
        return plan->update(length_arrays(cu_seqlens_q, cu_seqlens_q_len, cu_seqlens_k,
                                          cu_seqlens_k_len, seqused_q, seqused_q_len, seqused_k,
                                          seqused_k_len));
    });
}

vfa_status vfa_plan_set_alibi(vfa_plan *plan, const float *slopes, size_t slopes_len,
                              vfa_error *error) {
    return guard(error, log_of(plan), [&]() -> Status {
        VFA_TRY(validate_pointer("plan", plan));
        return plan->set_alibi(slopes, slopes_len);
    });
}

vfa_status vfa_plan_set_sinks(vfa_plan *plan, const float *sinks, size_t sinks_len,
                              vfa_error *error) {
    return guard(error, log_of(plan), [&]() -> Status {
        VFA_TRY(validate_pointer("plan", plan));
        return plan->set_sinks(sinks, sinks_len);
    });
}

void vfa_plan_destroy(vfa_plan *plan) {
    if (plan) Ref<vfa_plan>::adopt(plan);
}

vfa_status vfa_plan_info_init(vfa_plan_info *info, size_t size) {
    return guard(nullptr, nullptr, [&] { return init_struct("info", info, size); });
}

vfa_status vfa_plan_get_info(const vfa_plan *plan, vfa_plan_info *info) {
    return guard(nullptr, log_of(plan), [&]() -> Status {
        VFA_TRY(validate_pointer("plan", plan));
        VFA_TRY(check_info("vfa_plan_info_init", info));
        vfa_plan_info full;
        VFA_TRY(plan->get_info(&full));
        write_struct(full, info);
        return {};
    });
}

// ------------------------------------------------------------------------------------- forward

vfa_status vfa_forward_host(const vfa_plan *plan, const uint16_t *q, size_t q_len,
                            const uint16_t *k, size_t k_len, const uint16_t *v, size_t v_len,
                            uint16_t *o, size_t o_len, float *lse, size_t lse_len,
                            vfa_error *error) {
    return forward(plan, {ForwardKind::half, q, q_len, k, k_len, v, v_len, o, o_len, lse, lse_len},
                   error);
}

vfa_status vfa_forward_host_o_f32(const vfa_plan *plan, const uint16_t *q, size_t q_len,
                                  const uint16_t *k, size_t k_len, const uint16_t *v, size_t v_len,
                                  float *o, size_t o_len, float *lse, size_t lse_len,
                                  vfa_error *error) {
    return forward(plan,
                   {ForwardKind::half_o_f32, q, q_len, k, k_len, v, v_len, o, o_len, lse, lse_len},
                   error);
}

vfa_status vfa_forward_host_f32(const vfa_plan *plan, const float *q, size_t q_len, const float *k,
                                size_t k_len, const float *v, size_t v_len, float *o, size_t o_len,
                                float *lse, size_t lse_len, vfa_error *error) {
    return forward(plan, {ForwardKind::f32, q, q_len, k, k_len, v, v_len, o, o_len, lse, lse_len},
                   error);
}

vfa_status vfa_varlen_forward(vfa_dtype dtype, const uint16_t *q, size_t q_len, const uint16_t *k,
                              size_t k_len, const uint16_t *v, size_t v_len, uint16_t *o,
                              size_t o_len, float *lse, size_t lse_len, const int32_t *cu_seqlens_q,
                              size_t cu_seqlens_q_len, const int32_t *cu_seqlens_k,
                              size_t cu_seqlens_k_len, uint32_t heads_q, uint32_t heads_kv,
                              uint32_t head_dim, int32_t max_seqlen_q, int32_t max_seqlen_k,
                              float scale, vfa_causal causal, vfa_error *error) {
    return guard(error, nullptr, [&]() -> Status {
        VFA_TRY(validate_half(dtype));
        return varlen_forward(
            dtype, {ForwardKind::half, q, q_len, k, k_len, v, v_len, o, o_len, lse, lse_len},
            {{cu_seqlens_q, cu_seqlens_q_len}, {cu_seqlens_k, cu_seqlens_k_len}, {}, {}}, heads_q,
            heads_kv, head_dim, max_seqlen_q, max_seqlen_k, scale, causal);
    });
}

vfa_status vfa_varlen_forward_f32(const float *q, size_t q_len, const float *k, size_t k_len,
                                  const float *v, size_t v_len, float *o, size_t o_len, float *lse,
                                  size_t lse_len, const int32_t *cu_seqlens_q,
                                  size_t cu_seqlens_q_len, const int32_t *cu_seqlens_k,
                                  size_t cu_seqlens_k_len, uint32_t heads_q, uint32_t heads_kv,
                                  uint32_t head_dim, int32_t max_seqlen_q, int32_t max_seqlen_k,
                                  float scale, vfa_causal causal, vfa_error *error) {
    return guard(error, nullptr, [&] {
        return varlen_forward(
            VFA_DTYPE_F32, {ForwardKind::f32, q, q_len, k, k_len, v, v_len, o, o_len, lse, lse_len},
            {{cu_seqlens_q, cu_seqlens_q_len}, {cu_seqlens_k, cu_seqlens_k_len}, {}, {}}, heads_q,
            heads_kv, head_dim, max_seqlen_q, max_seqlen_k, scale, causal);
    });
}
