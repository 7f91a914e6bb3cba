// bounded.hpp - min, max and clamp for files that are compiled for a newer instruction set: local
// to the including file, where the std:: templates would be shared (comdat) with the rest of the
// library.
#pragma once

namespace vfa {
namespace {

template <class T> [[maybe_unused]] constexpr T smaller(T a, T b) { return b < a ? b : a; }
template <class T> [[maybe_unused]] constexpr T larger(T a, T b) { return a < b ? b : a; }
template <class T> [[maybe_unused]] constexpr T bounded(T value, T low, T high) {
    return value < low ? low : high < value ? high : value;
}

} // namespace
} // namespace vfa
