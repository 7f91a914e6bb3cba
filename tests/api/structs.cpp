// Callers compiled against an older or a newer vfa.h.
#include "api.hpp"

#include <cstddef>

using namespace vfa_test;

namespace {

// Sizes that programs have compiled in: those of 0.1. A struct that grows gets a line more here;
// these stay.
enum : size_t {
    BACKEND_INFO_0_1 = 384,
    ISA_INFO_0_1 = 132,
    HOOKS_0_1 = sizeof(void *) == 8 ? 48 : 28,
    CONTEXT_DESC_0_1 = 48,
    CONTEXT_INFO_0_1 = 44,
    ATTN_DESC_0_1 = 152,
    PLAN_INFO_0_1 = 136,
};

// A struct of a caller whose vfa.h knows 16 bytes more.
template <class T> struct Newer {
    T known;
    unsigned char more[16];
};

// What init leaves alone is still 0x5a.
template <class T> void check_init(vfa_status (*init)(T *, size_t), size_t size_0_1) {
    Newer<T> x;
    for (size_t size : {size_0_1, sizeof(T), sizeof x}) {
        CAPTURE(size);
        std::memset(&x, 0x5a, sizeof x);
        CHECK(init(&x.known, size) == VFA_OK);
        CHECK(x.known.struct_size == size);
        const unsigned char *bytes = reinterpret_cast<const unsigned char *>(&x);
        for (size_t i = size; i < sizeof x; ++i) CHECK(bytes[i] == 0x5a);
        for (size_t i = sizeof(T); i < size; ++i) CHECK(bytes[i] == 0);
    }
}

// An info call of an older caller writes struct_size bytes and no more; of a newer one it leaves the
// rest zero.
template <class T, class Query>
void check_info(vfa_status (*init)(T *, size_t), size_t size_0_1, size_t smaller, Query query) {
    Newer<T> full, x;
    REQUIRE(init(&full.known, sizeof full) == VFA_OK);
    REQUIRE(query(&full.known) == VFA_OK);
    for (unsigned char byte : full.more) CHECK(byte == 0);
    for (size_t size : {smaller, size_0_1, sizeof(T)}) {
        CAPTURE(size);
        std::memset(&x, 0x5a, sizeof x);
        REQUIRE(init(&x.known, size) == VFA_OK);
        REQUIRE(query(&x.known) == VFA_OK);
        CHECK(x.known.struct_size == size);
        const char *got = reinterpret_cast<const char *>(&x);
        const char *want = reinterpret_cast<const char *>(&full);
        CHECK(std::memcmp(got + 4, want + 4, size - 4) == 0);
        for (size_t i = size; i < sizeof x; ++i) CHECK(got[i] == 0x5a);
    }
    x.known.struct_size = 0;
    CHECK(query(&x.known) == VFA_ERROR_INVALID_ARGUMENT);
}

vfa_status create(const vfa_context_desc *desc, const vfa_hooks *hooks) {
    vfa_context *ctx = nullptr;
    const vfa_status status = vfa_context_create(desc, hooks, &ctx, nullptr);
    CHECK((ctx != nullptr) == (status == VFA_OK));
    vfa_context_destroy(ctx);
    return status;
}

} // namespace

TEST_CASE("init writes what the caller's size covers") {
    check_init(vfa_backend_info_init, BACKEND_INFO_0_1);
    check_init(vfa_isa_info_init, ISA_INFO_0_1);
    check_init(vfa_hooks_init, HOOKS_0_1);
    check_init(vfa_context_desc_init, CONTEXT_DESC_0_1);
    check_init(vfa_context_info_init, CONTEXT_INFO_0_1);
    check_init(vfa_attn_desc_init, ATTN_DESC_0_1);
    check_init(vfa_plan_info_init, PLAN_INFO_0_1);
}

TEST_CASE("info calls write what the caller's size covers") {
    check_info(vfa_backend_info_init, BACKEND_INFO_0_1, offsetof(vfa_backend_info, device),
               [](vfa_backend_info *info) { return vfa_backend_query(VFA_BACKEND_MATH, 0, info); });
    check_info(vfa_isa_info_init, ISA_INFO_0_1, offsetof(vfa_isa_info, reason),
               [](vfa_isa_info *info) { return vfa_isa_query(0, info); });
    const Context ctx = make_context();
    check_info(vfa_context_info_init, CONTEXT_INFO_0_1, offsetof(vfa_context_info, isa),
               [&](vfa_context_info *info) { return vfa_context_get_info(ctx.get(), info); });
    const Plan plan = Batch<float>().make_plan(ctx.get());
    check_info(vfa_plan_info_init, PLAN_INFO_0_1, offsetof(vfa_plan_info, num_work_units),
               [&](vfa_plan_info *info) { return vfa_plan_get_info(plan.get(), info); });
}

TEST_CASE("context description: older, newer, wrong sizes") {
    Newer<vfa_context_desc> desc;
    REQUIRE(vfa_context_desc_init(&desc.known, sizeof desc) == VFA_OK);
    CHECK(create(&desc.known, nullptr) == VFA_OK);
    desc.more[15] = 1; // asks for something that this library does not know
    CHECK(create(&desc.known, nullptr) == VFA_ERROR_INVALID_ARGUMENT);
    desc.known.struct_size = CONTEXT_DESC_0_1;
    CHECK(create(&desc.known, nullptr) == VFA_OK);
    desc.known.struct_size = offsetof(vfa_context_desc, device);
    desc.known.device = -77; // beyond the size: not looked at
    CHECK(create(&desc.known, nullptr) == VFA_OK);
    desc.known.struct_size = 0;
    CHECK(create(&desc.known, nullptr) == VFA_ERROR_INVALID_ARGUMENT);
}

TEST_CASE("hooks: older, newer, wrong sizes") {
    Newer<vfa_hooks> hooks;
    REQUIRE(vfa_hooks_init(&hooks.known, sizeof hooks) == VFA_OK);
    CHECK(create(nullptr, &hooks.known) == VFA_OK);
    hooks.more[0] = 1;
    CHECK(create(nullptr, &hooks.known) == VFA_ERROR_INVALID_ARGUMENT);
    hooks.known.struct_size = HOOKS_0_1;
    CHECK(create(nullptr, &hooks.known) == VFA_OK);
    hooks.known.struct_size = 0;
    CHECK(create(nullptr, &hooks.known) == VFA_ERROR_INVALID_ARGUMENT);
}

TEST_CASE("attention description: older, newer, wrong sizes") {
    const Context ctx = make_context();
    Batch<float> batch;
    batch.desc.causal = VFA_CAUSAL_NONE;
    REQUIRE(batch.forward(batch.make_plan(ctx.get()).get()) == VFA_OK);
    const std::string want = bits(batch);

    Newer<vfa_attn_desc> desc;
    vfa_plan *plan = nullptr;
    auto plan_create = [&] {
        plan = nullptr;
        return vfa_plan_create(ctx.get(), &desc.known, batch.cu_q.data(), batch.cu_q.size(),
                               batch.cu_k.data(), batch.cu_k.size(), nullptr, 0, nullptr, 0, &plan,
                               nullptr);
    };
    auto check_works = [&] {
        batch.fill();
        REQUIRE(plan_create() == VFA_OK);
        CHECK(batch.forward(plan) == VFA_OK);
        CHECK(bits(batch) == want);
        vfa_plan_destroy(plan);
    };
    desc.known = batch.desc;
    desc.known.struct_size = sizeof desc;
    std::memset(desc.more, 0, sizeof desc.more);
    check_works();
    desc.more[3] = 1;
    CHECK(plan_create() == VFA_ERROR_INVALID_ARGUMENT);
    CHECK(vfa_attn_supported(ctx.get(), &desc.known, nullptr, nullptr) ==
          VFA_ERROR_INVALID_ARGUMENT);
    desc.known.struct_size = ATTN_DESC_0_1;
    check_works();

    // A caller that knows fields up to head_dim only: windows are open, strides packed.
    std::memset(reinterpret_cast<char *>(&desc) + offsetof(vfa_attn_desc, head_dim_v), 0x5a,
                sizeof desc - offsetof(vfa_attn_desc, head_dim_v));
    desc.known.struct_size = offsetof(vfa_attn_desc, head_dim_v);
    check_works();

    desc.known.struct_size = 0;
    CHECK(plan_create() == VFA_ERROR_INVALID_ARGUMENT);
}
