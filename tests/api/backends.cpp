// Backends by name: what is here works, what is not says why, and none stands in for another.
#include "api.hpp"

using namespace vfa_test;

namespace {

vfa_backend_info query(vfa_backend backend) {
    vfa_backend_info info;
    REQUIRE(vfa_backend_info_init(&info, sizeof info) == VFA_OK);
    REQUIRE(vfa_backend_query(backend, 0, &info) == VFA_OK);
    return info;
}

constexpr int BACKENDS = VFA_BACKEND_VARLEN + 1;

} // namespace

TEST_CASE("backend names, both ways") {
    const char *const names[BACKENDS] = {
        "Auto", "FlashAttention", "FlashAttentionV3", "Math", "MemoryEfficient", "CuDNN", "Metal",
        "Cpu",  "VarLen"};
    for (int b = 0; b < BACKENDS; ++b) {
        REQUIRE(vfa_backend_name(vfa_backend(b)));
        CHECK(std::string(vfa_backend_name(vfa_backend(b))) == names[b]);
        vfa_backend found = VFA_BACKEND_FORCE_INT32;
        CHECK(vfa_backend_from_name(names[b], &found) == VFA_OK);
        CHECK(found == b);
    }
    const std::pair<const char *, vfa_backend> spellings[] = {
        {"flash_attention_v3", VFA_BACKEND_FLASH_ATTENTION_V3},
        {"flash-attention", VFA_BACKEND_FLASH_ATTENTION},
        {"MEMORY_EFFICIENT", VFA_BACKEND_MEMORY_EFFICIENT},
        {"cpu", VFA_BACKEND_CPU},
    };
    for (const auto &[spelling, backend] : spellings) {
        vfa_backend found = VFA_BACKEND_FORCE_INT32;
        CHECK(vfa_backend_from_name(spelling, &found) == VFA_OK);
        CHECK(found == backend);
    }
    vfa_backend found = VFA_BACKEND_METAL;
    for (const char *name : {"", "flash", "cpu2", "auto "})
        CHECK(vfa_backend_from_name(name, &found) == VFA_ERROR_INVALID_ARGUMENT);
    CHECK(found == VFA_BACKEND_METAL);
    for (int b : {-1, BACKENDS, 99}) CHECK(vfa_backend_name(vfa_backend(b)) == nullptr);
}

TEST_CASE("queries that cannot be answered") {
    vfa_backend_info info;
    REQUIRE(vfa_backend_info_init(&info, sizeof info) == VFA_OK);
    CHECK(vfa_backend_query(vfa_backend(99), 0, &info) == VFA_ERROR_INVALID_ARGUMENT);
    CHECK(vfa_backend_query(vfa_backend(-1), 0, &info) == VFA_ERROR_INVALID_ARGUMENT);
    CHECK(vfa_backend_query(VFA_BACKEND_MATH, 1, &info) == VFA_ERROR_INVALID_ARGUMENT);
    CHECK(vfa_backend_query(VFA_BACKEND_MATH, -1, &info) == VFA_ERROR_INVALID_ARGUMENT);
}

TEST_CASE("a backend is usable, or there is a reason") {
    const Context ctx = make_context();
    for (int b = 0; b < BACKENDS; ++b) {
        const vfa_backend backend = vfa_backend(b);
        CAPTURE(name(backend));
        const vfa_backend_info info = query(backend);
        Batch<uint16_t> batch(backend);
        vfa_plan *plan = nullptr;
        if (!info.available) {
            CHECK(info.reason[0] != '\0');
            check_fails(VFA_ERROR_BACKEND_UNAVAILABLE,
                        [&](vfa_error *error) { return batch.create(ctx.get(), &plan, error); });
            CHECK(std::string(vfa_last_error()).find(info.reason) != std::string::npos);
            CHECK(plan == nullptr);
            check_fails(VFA_ERROR_BACKEND_UNAVAILABLE, [&](vfa_error *error) {
                return vfa_attn_supported(ctx.get(), &batch.desc, nullptr, error);
            });
            continue;
        }
        CHECK(std::string(info.reason) == "");
        vfa_backend resolved = VFA_BACKEND_FORCE_INT32;
        CHECK(vfa_attn_supported(ctx.get(), &batch.desc, &resolved, nullptr) == VFA_OK);
        const Plan made = batch.make_plan(ctx.get());
        vfa_plan_info plan_info;
        vfa_plan_info_init(&plan_info, sizeof plan_info);
        REQUIRE(vfa_plan_get_info(made.get(), &plan_info) == VFA_OK);
        CHECK(plan_info.backend == resolved);
        CHECK(plan_info.kernel[0] != '\0');
        if (backend == VFA_BACKEND_AUTO || backend == VFA_BACKEND_VARLEN) {
            CHECK(resolved != VFA_BACKEND_AUTO);
            CHECK(resolved != VFA_BACKEND_VARLEN);
            CHECK(info.resolved == resolved);
        } else {
            CHECK(resolved == backend);
        }
        CHECK(batch.forward(made.get()) == VFA_OK);
    }
}

TEST_CASE("the portable backends are always here") {
    for (vfa_backend backend :
         {VFA_BACKEND_MATH, VFA_BACKEND_MEMORY_EFFICIENT, VFA_BACKEND_AUTO, VFA_BACKEND_VARLEN}) {
        CAPTURE(name(backend));
        const vfa_backend_info info = query(backend);
        CHECK(info.available == 1);
        CHECK(info.threads > 0);
    }
}

TEST_CASE("backends without a driver here") {
    for (vfa_backend backend : {VFA_BACKEND_FLASH_ATTENTION, VFA_BACKEND_FLASH_ATTENTION_V3,
                                VFA_BACKEND_CUDNN, VFA_BACKEND_METAL}) {
        const vfa_backend_info info = query(backend);
        if (info.available) { // then the test above has run it
            MESSAGE(name(backend) << " is usable here");
            continue;
        }
        CHECK(info.device_count == 0);
        CHECK(std::string(info.reason).size() > 10);
    }
}

TEST_CASE("instruction sets") {
    int usable = 0;
    for (uint32_t i = 0; i < vfa_isa_count(); ++i) {
        vfa_isa_info info;
        REQUIRE(vfa_isa_info_init(&info, sizeof info) == VFA_OK);
        REQUIRE(vfa_isa_query(i, &info) == VFA_OK);
        CAPTURE(std::string(info.name));
        CHECK(info.name[0] != '\0');
        CHECK((info.reason[0] != '\0') == !info.available);
        if (!info.available) continue;
        ++usable;
        vfa_context_desc desc = context_desc();
        std::strcpy(desc.max_isa, info.name);
        const Context ctx = make_context(&desc);
        vfa_context_info context_info;
        REQUIRE(vfa_context_info_init(&context_info, sizeof context_info) == VFA_OK);
        REQUIRE(vfa_context_get_info(ctx.get(), &context_info) == VFA_OK);
        CHECK(std::string(context_info.isa) == info.name);
    }
    // The backend is usable where one of its instruction sets is.
    CHECK((usable > 0) == (query(VFA_BACKEND_CPU).available == 1));
}
