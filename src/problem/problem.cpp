#include "problem/problem.hpp"

namespace vfa {

void Lengths::reserve(size_t num_seqs) {
    cu_seqlens_q_.reserve(num_seqs + 1);
    cu_seqlens_k_.reserve(num_seqs + 1);
    seqused_q_.reserve(num_seqs);
    seqused_k_.reserve(num_seqs);
}

void Lengths::assign(const LengthArrays &arrays) noexcept {
    const auto copy = [](std::pmr::vector<int32_t> &to, std::span<const int32_t> from) {
        to.assign(from.begin(), from.end());
    };
    copy(cu_seqlens_q_, arrays.cu_seqlens_q);
    copy(cu_seqlens_k_, arrays.cu_seqlens_k);
    copy(seqused_q_, arrays.seqused_q);
    copy(seqused_k_, arrays.seqused_k);
}

} // namespace vfa
