// backend/cpu/schedule: units of work cover everything once, in a good order, in any batch.
#include "backend/cpu/schedule.hpp"

#include "doctest.hpp"

#include <algorithm>
#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <vector>

using namespace vfa;

namespace {

struct Batch {
    Problem problem{};
    Lengths lengths{std::pmr::get_default_resource()};
    std::vector<Sequence> sequences;

    Batch(const std::vector<int32_t> &len_q, const std::vector<int32_t> &len_k, int32_t heads_kv,
          int32_t group, int32_t head_dim = 64, vfa_causal causal = VFA_CAUSAL_NONE) {
        problem.heads_kv = heads_kv;
        problem.group = group;
        problem.heads_q = heads_kv * group;
        problem.head_dim = problem.head_dim_v = head_dim;
        problem.causal = causal;
        problem.window_left = problem.window_right = -1;
        std::vector<int32_t> cu_q = {0}, cu_k = {0};
        for (size_t b = 0; b < len_q.size(); b++) {
            cu_q.push_back(cu_q.back() + len_q[b]);
            cu_k.push_back(cu_k.back() + len_k[b]);
        }
        lengths.reserve(len_q.size());
        lengths.assign({cu_q, cu_k, {}, {}});
        for (size_t b = 0; b < len_q.size(); b++) sequences.push_back(lengths.sequence(b));
    }

    Schedule schedule(int64_t rows_per_call) const {
        Schedule schedule(std::pmr::get_default_resource());
        schedule.reserve(lengths.num_seqs());
        schedule.build(problem, lengths, rows_per_call);
        return schedule;
    }

    // Rows of sequence b that the unit is about, as backend/cpu/host.cpp reads it.
    std::pair<int64_t, int64_t> rows(const WorkUnit &unit, size_t b, int64_t rows_per_call) const {
        const int64_t num_rows = sequences[b].num_queries * problem.group;
        const int64_t block = rows_per_block(num_rows, rows_per_call);
        return {unit.block_begin * block,
                unit.block_end < 0 ? num_rows : std::min(unit.block_end * block, num_rows)};
    }
};

// Every (sequence, kv head, row) exactly once, nothing else.
void check_covers(const Batch &batch, int64_t rows_per_call) {
    const Schedule schedule = batch.schedule(rows_per_call);
    const size_t heads = (size_t)batch.problem.heads_kv;
    std::vector<std::vector<uint8_t>> seen; // [sequence][head * rows + row]
    for (const Sequence &s : batch.sequences)
        seen.emplace_back(heads * (size_t)(s.num_queries * batch.problem.group));
    bool sane = true;
    for (uint32_t index = 0; index < schedule.num_units() && sane; index++) {
        const WorkUnit unit = schedule.unit(index);
        sane = unit.seq_begin < unit.seq_end && unit.seq_end <= batch.sequences.size() &&
               unit.head_begin >= 0 && unit.head_begin < unit.head_end &&
               unit.head_end <= batch.problem.heads_kv && unit.block_begin >= 0;
        for (size_t b = unit.seq_begin; b < unit.seq_end && sane; b++) {
            const auto [begin, end] = batch.rows(unit, b, rows_per_call);
            const int64_t num_rows = batch.sequences[b].num_queries * batch.problem.group;
            if (num_rows == 0) continue; // host.cpp leaves it out
            sane = begin < end && end <= num_rows;
            for (int32_t head = unit.head_begin; head < unit.head_end; head++)
                for (int64_t row = begin; row < end; row++)
                    seen[b][(size_t)(head * num_rows + row)]++;
        }
    }
    CHECK(sane);
    int missing = 0, twice = 0;
    for (const auto &sequence : seen)
        for (const uint8_t count : sequence) missing += count == 0, twice += count > 1;
    CHECK(missing == 0);
    CHECK(twice == 0);
}

} // namespace

TEST_CASE("schedule: rows_per_block is even, small enough, and makes no more blocks") {
    for (const int64_t per_call : {1, 2, 8, 24, 64, 96, 384})
        for (int64_t rows = 1; rows < 1500; rows += rows < 100 ? 1 : 37) {
            const int64_t block = rows_per_block(rows, per_call);
            const int64_t blocks = (rows + block - 1) / block;
            CAPTURE(per_call);
            CAPTURE(rows);
            CHECK(block >= 1);
            CHECK(block <= per_call);
            CHECK(blocks == (rows + per_call - 1) / per_call);
        }
    CHECK(rows_per_block(0, 24) >= 1);
}

TEST_CASE("schedule: covers everything once, over random batches") {
    std::mt19937 random(7);
    const auto below = [&](uint32_t limit) { return (int32_t)(random() % limit); };
    for (int round = 0; round < 300; round++) {
        std::vector<int32_t> len_q, len_k;
        const int32_t most = round % 3 == 0 ? 4 : round % 3 == 1 ? 100 : 1200;
        for (int32_t b = below(20); b > 0; b--) {
            len_q.push_back(below(4) == 0 ? 0 : below((uint32_t)most));
            len_k.push_back(below(5) == 0 ? 0 : below((uint32_t)most));
        }
        const Batch batch(len_q, len_k, 1 + below(5), 1 + below(4), 1 + below(256),
                          (vfa_causal)below(3));
        CAPTURE(round);
        for (const int64_t per_call : {1 + below(30), 24, 384}) check_covers(batch, per_call);
    }
}

TEST_CASE("schedule: nothing to do") {
    CHECK(Batch({}, {}, 2, 2).schedule(24).num_units() == 0);
    CHECK(Batch({0, 0}, {5, 0}, 2, 2).schedule(24).num_units() == 0);
    CHECK(Batch({1}, {0}, 1, 1).schedule(24).num_units() == 1); // zeros to be written
}

TEST_CASE("schedule: a rebuilt schedule is a new one") {
    const Batch first({100, 2000, 3}, {100, 2000, 3}, 4, 2), second({7}, {9}, 4, 2);
    Schedule schedule(std::pmr::get_default_resource());
    schedule.reserve(3);
    for (const Batch *batch : {&first, &second, &first}) {
        schedule.build(batch->problem, batch->lengths, 48);
        const Schedule fresh = batch->schedule(48);
        CHECK(schedule.num_units() == fresh.num_units());
        for (uint32_t n = 0; n < std::min(schedule.num_units(), fresh.num_units()); n++) {
            const WorkUnit a = schedule.unit(n), b = fresh.unit(n);
            CHECK((a.seq_begin == b.seq_begin && a.seq_end == b.seq_end &&
                   a.head_begin == b.head_begin && a.head_end == b.head_end &&
                   a.block_begin == b.block_begin && a.block_end == b.block_end));
        }
    }
}

TEST_CASE("schedule: longest first") {
    // Too long to be put together: in the order of their lengths, whatever the order in the batch.
    const std::vector<int32_t> lengths = {700, 3000, 900, 5000, 1100, 4000, 800};
    const Batch batch(lengths, lengths, 2, 1, 128);
    const Schedule schedule = batch.schedule(96);
    std::vector<int64_t> order;
    for (uint32_t n = 0; n < schedule.num_units(); n++) {
        const int64_t length = batch.sequences[schedule.unit(n).seq_begin].num_queries;
        if (order.empty() || order.back() != length) order.push_back(length);
    }
    CHECK(order == std::vector<int64_t>{5000, 4000, 3000, 1100, 900, 800, 700});

    // With a causal mask the last rows see the most keys: they come first.
    const Batch causal({4000}, {4000}, 1, 1, 128, VFA_CAUSAL_BOTTOM_RIGHT);
    const Schedule parts = causal.schedule(96);
    REQUIRE(parts.num_units() > 4);
    int64_t last = INT64_MAX;
    for (uint32_t n = 0; n < parts.num_units(); n++) {
        CHECK(parts.unit(n).block_begin < last);
        last = parts.unit(n).block_begin;
    }
}

TEST_CASE("schedule: units are worth a thread's while, and none is most of the batch") {
    // Many short sequences: far fewer units.
    const std::vector<int32_t> ones(70000, 1);
    const uint32_t units = Batch(ones, ones, 1, 1).schedule(24).num_units();
    CHECK(units >= 16);
    CHECK(units < 7000);
    check_covers(Batch(ones, ones, 1, 1), 24);

    // One long sequence: many units of about the same size.
    const Batch batch({20000}, {20000}, 1, 1, 128);
    const Schedule schedule = batch.schedule(96);
    CHECK(schedule.num_units() >= 64);
    int64_t most = 0;
    for (uint32_t n = 0; n < schedule.num_units(); n++) {
        const auto [begin, end] = batch.rows(schedule.unit(n), 0, 96);
        most = std::max(most, end - begin);
    }
    CHECK(most <= 20000 / 32);
}

TEST_CASE("schedule: the largest batches stay within 32 bits") {
    const Batch batch({INT32_MAX}, {INT32_MAX}, 65536, 1, 256);
    const Schedule schedule = batch.schedule(24);
    CHECK(schedule.num_units() >= 65536);
    CHECK(schedule.num_units() <= 1u << 26);
    // Units of each head are neighbours and go through the rows from the end to the start: if each begins
    // where the one after it ends, and heads follow each other, nothing is missing.
    std::mt19937 random(3);
    const auto check_step = [&](uint32_t index) {
        const WorkUnit unit = schedule.unit(index), next = schedule.unit(index + 1);
        CAPTURE(index);
        if (next.head_begin == unit.head_begin)
            CHECK(next.block_end == unit.block_begin);
        else
            CHECK((next.head_begin == unit.head_end && unit.block_begin == 0));
    };
    for (int n = 0; n < 100000; n++) check_step(random() % (schedule.num_units() - 1));
    for (uint32_t n = 0; n < 2000; n++) check_step(n);
    const WorkUnit first = schedule.unit(0), last = schedule.unit(schedule.num_units() - 1);
    CHECK((first.head_begin == 0 && batch.rows(first, 0, 24).second == INT32_MAX));
    CHECK((last.head_end == 65536 && last.block_begin == 0));
}
