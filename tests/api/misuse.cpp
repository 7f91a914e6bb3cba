// Wrong calls: a status and a sentence, and nothing is written.
#include "api.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <thread>
#include <tuple>

using namespace vfa_test;

namespace {

// Calls function(args...) once for each pointer argument with NULL in its place, and once for each
// size_t argument with 1 less. The argument numbers in `optional` are left out; the last argument is
// always the vfa_error.
template <class... Params, class... Args>
void check_each_argument(vfa_status (*function)(Params...), std::vector<size_t> optional,
                         Args... given) {
    const std::tuple<Params...> good(given..., nullptr);
    auto spoil = [&]<size_t I>(std::integral_constant<size_t, I>) {
        using Param = std::tuple_element_t<I, std::tuple<Params...>>;
        if (std::find(optional.begin(), optional.end(), I) != optional.end()) return;
        std::tuple<Params...> bad = good;
        if constexpr (std::is_pointer_v<Param>)
            std::get<I>(bad) = nullptr;
        else if constexpr (std::is_same_v<Param, size_t>)
            std::get<I>(bad) -= 1;
        else
            return;
        CAPTURE(I);
        check_fails(VFA_ERROR_INVALID_ARGUMENT, [&](vfa_error *error) {
            std::get<sizeof...(Params) - 1>(bad) = error;
            return std::apply(function, bad);
        });
    };
    [&]<size_t... I>(std::index_sequence<I...>) {
        (spoil(std::integral_constant<size_t, I>{}), ...);
    }
    (std::make_index_sequence<sizeof...(Params) - 1>{});
}

template <class Info> void check_info_null(vfa_status (*init)(Info *, size_t)) {
    Info info;
    CHECK(init(nullptr, sizeof info) == VFA_ERROR_INVALID_ARGUMENT);
    CHECK(init(&info, 0) == VFA_ERROR_INVALID_ARGUMENT);
}

template <class T, class O, class Forward>
void check_forward_arguments(Batch<T, O> batch, Forward forward) {
    const Context ctx = make_context();
    const Plan plan = batch.make_plan(ctx.get());
    const std::string before = bits(batch);
    // lse may be NULL, but not with a length.
    check_each_argument(forward, {}, plan.get(), batch.q.data(), batch.q.size(), batch.k.data(),
                        batch.k.size(), batch.v.data(), batch.v.size(), batch.o.data(),
                        batch.o.size(), batch.lse.data(), batch.lse.size());
    CHECK(bits(batch) == before);
    CHECK(forward(plan.get(), batch.q.data(), batch.q.size(), batch.k.data(), batch.k.size(),
                  batch.v.data(), batch.v.size(), batch.o.data(), batch.o.size(), nullptr, 0,
                  nullptr) == VFA_OK);
}

} // namespace

TEST_CASE("NULL and short lengths: init and query functions") {
    check_info_null(vfa_backend_info_init);
    check_info_null(vfa_isa_info_init);
    check_info_null(vfa_hooks_init);
    check_info_null(vfa_context_desc_init);
    check_info_null(vfa_context_info_init);
    check_info_null(vfa_attn_desc_init);
    check_info_null(vfa_plan_info_init);

    vfa_backend backend = VFA_BACKEND_CPU;
    CHECK(vfa_backend_from_name(nullptr, &backend) == VFA_ERROR_INVALID_ARGUMENT);
    CHECK(backend == VFA_BACKEND_CPU);
    CHECK(vfa_backend_from_name("Math", nullptr) == VFA_ERROR_INVALID_ARGUMENT);
    CHECK(vfa_backend_query(VFA_BACKEND_MATH, 0, nullptr) == VFA_ERROR_INVALID_ARGUMENT);
    CHECK(vfa_isa_query(0, nullptr) == VFA_ERROR_INVALID_ARGUMENT);

    const Context ctx = make_context();
    vfa_context_info context_info;
    vfa_context_info_init(&context_info, sizeof context_info);
    CHECK(vfa_context_get_info(nullptr, &context_info) == VFA_ERROR_INVALID_ARGUMENT);
    CHECK(vfa_context_get_info(ctx.get(), nullptr) == VFA_ERROR_INVALID_ARGUMENT);

    const Plan plan = Batch<float>().make_plan(ctx.get());
    vfa_plan_info plan_info;
    vfa_plan_info_init(&plan_info, sizeof plan_info);
    CHECK(vfa_plan_get_info(nullptr, &plan_info) == VFA_ERROR_INVALID_ARGUMENT);
    CHECK(vfa_plan_get_info(plan.get(), nullptr) == VFA_ERROR_INVALID_ARGUMENT);

    vfa_isa_info isa;
    vfa_isa_info_init(&isa, sizeof isa);
    CHECK(vfa_isa_count() > 0);
    CHECK(vfa_isa_query(vfa_isa_count(), &isa) == VFA_ERROR_INVALID_ARGUMENT);
}

TEST_CASE("NULL and short lengths: contexts and plans") {
    const Context ctx = make_context();
    const Batch<float> batch;
    const size_t nq = batch.cu_q.size(), nk = batch.cu_k.size();
    const std::vector<int32_t> used_q{2, 0, 5}, used_k{5, 4, 7};
    vfa_plan *plan = nullptr;

    CHECK(vfa_context_create(nullptr, nullptr, nullptr, nullptr) == VFA_ERROR_INVALID_ARGUMENT);
    vfa_backend resolved = VFA_BACKEND_METAL;
    check_each_argument(vfa_attn_supported, {2}, ctx.get(), &batch.desc, &resolved);
    CHECK(resolved == VFA_BACKEND_METAL);
    CHECK(vfa_attn_supported(ctx.get(), &batch.desc, nullptr, nullptr) == VFA_OK);

    check_each_argument(vfa_plan_create, {}, ctx.get(), &batch.desc, batch.cu_q.data(), nq,
                        batch.cu_k.data(), nk, used_q.data(), used_q.size(), used_k.data(),
                        used_k.size(), &plan);
    CHECK(plan == nullptr);

    const Plan good = batch.make_plan(ctx.get());
    check_each_argument(vfa_plan_update, {}, good.get(), batch.cu_q.data(), nq, batch.cu_k.data(),
                        nk, used_q.data(), used_q.size(), used_k.data(), used_k.size());
    const std::vector<float> per_head(batch.desc.heads_q, 0.5f);
    check_each_argument(vfa_plan_set_alibi, {}, good.get(), per_head.data(), per_head.size());
    check_each_argument(vfa_plan_set_sinks, {}, good.get(), per_head.data(), per_head.size());
}

TEST_CASE("NULL and short lengths: forward functions") {
    check_forward_arguments(Batch<uint16_t>(), vfa_forward_host);
    check_forward_arguments(Batch<uint16_t, float>(), vfa_forward_host_o_f32);
    check_forward_arguments(Batch<float>(), vfa_forward_host_f32);
}

TEST_CASE("NULL and short lengths: the one-call functions") {
    Batch<float> f;
    const std::string f_before = bits(f);
    check_each_argument(vfa_varlen_forward_f32, {}, f.q.data(), f.q.size(), f.k.data(), f.k.size(),
                        f.v.data(), f.v.size(), f.o.data(), f.o.size(), f.lse.data(), f.lse.size(),
                        f.cu_q.data(), f.cu_q.size(), f.cu_k.data(), f.cu_k.size(), f.desc.heads_q,
                        f.desc.heads_kv, f.desc.head_dim, 0, 0, 1.0f, VFA_CAUSAL_NONE);
    CHECK(bits(f) == f_before);

    Batch<uint16_t> h;
    const std::string h_before = bits(h);
    check_each_argument(vfa_varlen_forward, {}, VFA_DTYPE_BF16, h.q.data(), h.q.size(), h.k.data(),
                        h.k.size(), h.v.data(), h.v.size(), h.o.data(), h.o.size(), h.lse.data(),
                        h.lse.size(), h.cu_q.data(), h.cu_q.size(), h.cu_k.data(), h.cu_k.size(),
                        h.desc.heads_q, h.desc.heads_kv, h.desc.head_dim, 0, 0, 1.0f,
                        VFA_CAUSAL_NONE);
    check_fails(VFA_ERROR_INVALID_ARGUMENT, [&](vfa_error *error) {
        return vfa_varlen_forward(VFA_DTYPE_F32, h.q.data(), h.q.size(), h.k.data(), h.k.size(),
                                  h.v.data(), h.v.size(), h.o.data(), h.o.size(), nullptr, 0,
                                  h.cu_q.data(), h.cu_q.size(), h.cu_k.data(), h.cu_k.size(),
                                  h.desc.heads_q, h.desc.heads_kv, h.desc.head_dim, 0, 0, 1.0f,
                                  VFA_CAUSAL_NONE, error);
    });
    CHECK(bits(h) == h_before);
}

TEST_CASE("destroying nothing") {
    vfa_context_destroy(nullptr);
    vfa_plan_destroy(nullptr);
}

TEST_CASE("a forward function of another type than the plan's") {
    const Context ctx = make_context();
    Batch<uint16_t> half;
    Batch<uint16_t, float> mixed;
    Batch<float> single;
    const Plan half_plan = half.make_plan(ctx.get()), mixed_plan = mixed.make_plan(ctx.get()),
               single_plan = single.make_plan(ctx.get());

    auto refused = [](auto &batch, const Plan &plan) {
        const std::string before = bits(batch);
        check_fails(VFA_ERROR_INVALID_ARGUMENT,
                    [&](vfa_error *error) { return batch.forward(plan.get(), error); });
        CHECK(bits(batch) == before);
    };
    refused(single, half_plan);
    refused(single, mixed_plan);
    refused(half, single_plan);
    refused(half, mixed_plan);
    refused(mixed, half_plan);
    refused(mixed, single_plan);
}

TEST_CASE("outputs that share memory") {
    const Context ctx = make_context();
    Batch<float> batch;
    const Plan plan = batch.make_plan(ctx.get());
    auto forward = [&](float *o, float *lse, vfa_error *error) {
        return vfa_forward_host_f32(plan.get(), batch.q.data(), batch.q.size(), batch.k.data(),
                                    batch.k.size(), batch.v.data(), batch.v.size(), o,
                                    batch.o.size(), lse, lse ? batch.lse.size() : 0, error);
    };
    const std::vector<float> q = batch.q;
    check_fails(VFA_ERROR_INVALID_ARGUMENT,
                [&](vfa_error *error) { return forward(batch.q.data(), nullptr, error); });
    check_fails(VFA_ERROR_INVALID_ARGUMENT, [&](vfa_error *error) {
        return forward(batch.o.data(), batch.o.data() + 1, error);
    });
    CHECK(batch.q == q);
}

TEST_CASE("descriptions that cannot be computed") {
    constexpr float inf = std::numeric_limits<float>::infinity(), nan = NAN;
    const Context ctx = make_context();
    const std::vector<std::function<void(vfa_attn_desc &)>> spoils{
        // unknown enum values
        [](auto &d) { d.backend = vfa_backend(99); },
        [](auto &d) { d.backend = vfa_backend(-1); },
        [](auto &d) { d.dtype = vfa_dtype(99); },
        [](auto &d) { d.causal = vfa_causal(99); },
        [](auto &d) { d.scale_mode = vfa_scale_mode(99); },
        [](auto &d) { d.backend = VFA_BACKEND_FORCE_INT32; },
        [](auto &d) { d.o_f32 = 2; },
        // shapes
        [](auto &d) { d.heads_q = 0; },
        [](auto &d) { d.heads_kv = 0; },
        [](auto &d) { d.heads_kv = 3; },
        [](auto &d) { d.heads_q = d.heads_kv = 65537; },
        [](auto &d) { d.head_dim = 0; },
        [](auto &d) { d.head_dim = 257; },
        [](auto &d) { d.head_dim_v = 257; },
        // numbers
        [](auto &d) { d.scale = 1; },
        [](auto &d) { d.scale_mode = VFA_SCALE_GIVEN, d.scale = nan; },
        [](auto &d) { d.scale_mode = VFA_SCALE_GIVEN, d.scale = inf; },
        [](auto &d) { d.softcap = -1; },
        [](auto &d) { d.softcap = nan; },
        [](auto &d) { d.softcap = inf; },
        [](auto &d) { d.window_left = -2; },
        [](auto &d) { d.window_right = -2; },
        // hints below the truth
        [](auto &d) { d.max_seqlen_q = 4; },
        [](auto &d) { d.max_seqlen_k = 6; },
        [](auto &d) { d.max_seqlen_q = -1; },
        [](auto &d) { d.max_seqlen_k = -1; },
        // strides
        [](auto &d) { d.q_token_stride = -1; },
        [](auto &d) { d.k_head_stride = -1; },
        [](auto &d) { d.o_token_stride = 1; },
        [](auto &d) { d.o_head_stride = 1; },
        [](auto &d) { d.lse_token_stride = 1; },
        [](auto &d) { d.reserve_seqs = -1; },
        [](auto &d) { d.q_token_stride = std::numeric_limits<int64_t>::max(); },
    };
    for (size_t i = 0; i < spoils.size(); ++i) {
        CAPTURE(i);
        Batch<float> batch;
        spoils[i](batch.desc);
        vfa_plan *plan = nullptr;
        check_fails(VFA_ERROR_INVALID_ARGUMENT,
                    [&](vfa_error *error) { return batch.create(ctx.get(), &plan, error); });
        CHECK(plan == nullptr);
    }
}

TEST_CASE("sequence lengths that cannot be") {
    const Context ctx = make_context();
    const std::vector<std::vector<int32_t>> wrong{
        {1, 3, 3, 8}, {0, 3, 2, 8}, {0, -1, 3, 8}, {0, 3, 3}, {0, 3, 3, 8, 8}};
    for (const std::vector<int32_t> &cu_q : wrong) {
        CAPTURE(cu_q);
        Batch<float> batch;
        batch.cu_q = cu_q;
        vfa_plan *plan = nullptr;
        check_fails(VFA_ERROR_INVALID_ARGUMENT,
                    [&](vfa_error *error) { return batch.create(ctx.get(), &plan, error); });
    }
    const Batch<float> batch;
    const Plan plan = batch.make_plan(ctx.get());
    for (const std::vector<int32_t> &used : {std::vector<int32_t>{4, 0, 5}, {3, 1, 5}, {-1, 0, 5}})
        check_fails(VFA_ERROR_INVALID_ARGUMENT, [&](vfa_error *error) {
            return vfa_plan_update(plan.get(), batch.cu_q.data(), batch.cu_q.size(),
                                   batch.cu_k.data(), batch.cu_k.size(), used.data(), used.size(),
                                   nullptr, 0, error);
        });
}

TEST_CASE("the sentence says which index and which values") {
    const Context ctx = make_context();
    Batch<float> batch;
    batch.cu_k = {0, 9, 5, 16};
    vfa_plan *plan = nullptr;
    CHECK(batch.create(ctx.get(), &plan) == VFA_ERROR_INVALID_ARGUMENT);
    const std::string sentence = vfa_last_error();
    for (const char *part : {"cu_seqlens_k[2]", "5", "9"})
        CHECK_MESSAGE(sentence.find(part) != std::string::npos, sentence);
}

TEST_CASE("slopes and sinks") {
    const Context ctx = make_context();
    Batch<float> batch;
    const Plan plan = batch.make_plan(ctx.get());
    std::vector<float> values(batch.desc.heads_q, 0.0f);
    auto alibi = [&](vfa_error *error) {
        return vfa_plan_set_alibi(plan.get(), values.data(), values.size(), error);
    };
    auto sinks = [&](vfa_error *error) {
        return vfa_plan_set_sinks(plan.get(), values.data(), values.size(), error);
    };
    for (float bad : {NAN, INFINITY}) {
        values[2] = bad;
        check_fails(VFA_ERROR_INVALID_ARGUMENT, alibi);
        check_fails(VFA_ERROR_INVALID_ARGUMENT, sinks);
    }
    values[2] = -INFINITY;
    check_fails(VFA_ERROR_INVALID_ARGUMENT, alibi);
    CHECK(sinks(nullptr) == VFA_OK); // no sink
    values[2] = 0.5f;
    CHECK(alibi(nullptr) == VFA_OK);
    REQUIRE(batch.forward(plan.get()) == VFA_OK);
    check_fails(VFA_ERROR_INVALID_STATE, alibi);
    check_fails(VFA_ERROR_INVALID_STATE, sinks);
}

TEST_CASE("a plan whose update fails keeps its lengths") {
    const Context ctx = make_context();
    Batch<float> batch;
    const Plan plan = batch.make_plan(ctx.get());
    REQUIRE(batch.forward(plan.get()) == VFA_OK);
    const std::string want = bits(batch);
    const std::vector<int32_t> falling{0, 3, 2, 8};
    check_fails(VFA_ERROR_INVALID_ARGUMENT, [&](vfa_error *error) {
        return vfa_plan_update(plan.get(), falling.data(), falling.size(), batch.cu_k.data(),
                               batch.cu_k.size(), nullptr, 0, nullptr, 0, error);
    });
    batch.fill();
    REQUIRE(batch.forward(plan.get()) == VFA_OK);
    CHECK(bits(batch) == want);
}

TEST_CASE("contexts that cannot be") {
    const std::vector<std::function<void(vfa_context_desc &)>> spoils{
        [](auto &d) { d.log_level = vfa_log_level(99); },
        [](auto &d) { d.log_level = vfa_log_level(-1); },
        [](auto &d) { d.device = -1; },
        [](auto &d) { std::strcpy(d.max_isa, "avx99"); },
        [](auto &d) { std::memset(d.max_isa, 'x', sizeof d.max_isa); }, // no end
    };
    for (size_t i = 0; i < spoils.size(); ++i) {
        CAPTURE(i);
        vfa_context_desc desc = context_desc();
        spoils[i](desc);
        int other = 0;
        vfa_context *ctx = reinterpret_cast<vfa_context *>(&other);
        check_fails(VFA_ERROR_INVALID_ARGUMENT, [&](vfa_error *error) {
            return vfa_context_create(&desc, nullptr, &ctx, error);
        });
        CHECK(ctx == nullptr);
    }
}

TEST_CASE("hooks that cannot be") {
    const std::vector<std::function<void(vfa_hooks &)>> spoils{
        [](auto &h) { h.alloc = [](void *, size_t, size_t) -> void * { return nullptr; }; },
        [](auto &h) { h.free = [](void *, void *, size_t) {}; },
        [](auto &h) { h.max_workers = 1; },
        [](auto &h) {
            h.parallel = [](void *, uint32_t, void (*)(void *, uint32_t, uint32_t), void *) {};
        },
        [](auto &h) {
            h.parallel = [](void *, uint32_t, void (*)(void *, uint32_t, uint32_t), void *) {};
            h.max_workers = 4097;
        },
    };
    for (size_t i = 0; i < spoils.size(); ++i) {
        CAPTURE(i);
        vfa_hooks hooks = no_hooks();
        spoils[i](hooks);
        vfa_context *ctx = nullptr;
        check_fails(VFA_ERROR_INVALID_ARGUMENT, [&](vfa_error *error) {
            return vfa_context_create(nullptr, &hooks, &ctx, error);
        });
        CHECK(ctx == nullptr);
    }
}

TEST_CASE("vfa_error is written by a call that fails, and by no other") {
    const Context ctx = make_context();
    Batch<float> batch;
    vfa_error error{vfa_status(12345), "mine"};
    vfa_plan *plan = nullptr;
    REQUIRE(batch.create(ctx.get(), &plan, &error) == VFA_OK);
    CHECK(batch.forward(plan, &error) == VFA_OK);
    vfa_plan_destroy(plan);
    CHECK(int(error.status) == 12345);
    CHECK(std::string(error.message) == "mine");

    batch.desc.head_dim = 0;
    CHECK(batch.create(ctx.get(), &plan, &error) == VFA_ERROR_INVALID_ARGUMENT);
    CHECK(error.status == VFA_ERROR_INVALID_ARGUMENT);
    CHECK(std::string(error.message).find("head_dim") != std::string::npos);
}

TEST_CASE("each thread has its own last error") {
    vfa_backend backend = VFA_BACKEND_AUTO;
    CHECK(vfa_backend_from_name("here", &backend) == VFA_ERROR_INVALID_ARGUMENT);
    const std::string mine = vfa_last_error();
    CHECK(mine != "");
    std::thread([] {
        CHECK(std::string(vfa_last_error()) == "");
        vfa_backend other = VFA_BACKEND_AUTO;
        CHECK(vfa_backend_from_name("there", &other) == VFA_ERROR_INVALID_ARGUMENT);
        CHECK(std::string(vfa_last_error()).find("there") != std::string::npos);
    }).join();
    CHECK(vfa_last_error() == mine);
    // A call that succeeds leaves it.
    CHECK(vfa_backend_from_name("math", &backend) == VFA_OK);
    CHECK(vfa_last_error() == mine);
}

TEST_CASE("names of statuses") {
    CHECK(std::string(vfa_status_name(VFA_OK)) == "VFA_OK");
    CHECK(std::string(vfa_status_name(VFA_ERROR_INTERNAL)) == "VFA_ERROR_INTERNAL");
    CHECK(std::string(vfa_status_name(vfa_status(99))) == "unknown status");
    CHECK(std::string(vfa_status_name(VFA_STATUS_FORCE_INT32)) == "unknown status");
}
