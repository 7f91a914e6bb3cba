#include "backend/unavailable.hpp"

namespace vfa {

namespace {

class Unavailable final : public Backend {
public:
    constexpr Unavailable(vfa_backend id, const char *reason) noexcept : id_(id), reason_(reason) {}

    vfa_backend id() const noexcept override { return id_; }

    const char *unavailable(int32_t) const noexcept override { return reason_; }
    void describe(int32_t, vfa_backend_info &) const noexcept override {}
    Status supports(const Problem &) const noexcept override {
        return fail(VFA_ERROR_BACKEND_UNAVAILABLE, "%s", reason_);
    }
    WorkPlan *make_plan(vfa_context &, const Problem &) const override { return nullptr; }
    void destroy_plan(vfa_context &, WorkPlan *) const noexcept override {}

private:
    vfa_backend id_;
    const char *reason_;
};

#ifdef __APPLE__
constexpr const char *kNoMetal = "this build of vfa has no Metal kernels";
#else
constexpr const char *kNoMetal = "Metal is only on Apple systems, and this is not one";
#endif

constexpr Unavailable flash_attention(VFA_BACKEND_FLASH_ATTENTION,
                                      "this build of vfa has no CUDA kernels");
constexpr Unavailable flash_attention_v3(VFA_BACKEND_FLASH_ATTENTION_V3,
                                         "this build of vfa has no CUDA kernels for Hopper");
constexpr Unavailable cudnn(VFA_BACKEND_CUDNN, "this build of vfa has no cuDNN support");
constexpr Unavailable metal(VFA_BACKEND_METAL, kNoMetal);

} // namespace

const Backend &unavailable_backend(vfa_backend id) noexcept {
    switch (id) {
    case VFA_BACKEND_FLASH_ATTENTION:
        return flash_attention;
    case VFA_BACKEND_FLASH_ATTENTION_V3:
        return flash_attention_v3;
    case VFA_BACKEND_CUDNN:
        return cudnn;
    default:
        return metal;
    }
}

} // namespace vfa
