#include "case.hpp"

#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <sstream>
#include <stdexcept>

#include "numbers.hpp"

namespace conform {

namespace {

[[noreturn]] void wrong(const std::string &what) { throw std::invalid_argument(what); }

std::vector<std::string> split(const std::string &text, char separator) {
    std::vector<std::string> parts;
    std::string part;
    std::istringstream stream(text);
    while (std::getline(stream, part, separator)) parts.push_back(part);
    if (!text.empty() && text.back() == separator) parts.emplace_back();
    return parts;
}

long to_int(const std::string &text) {
    size_t used = 0;
    long value = 0;
    try {
        value = std::stol(text, &used);
    } catch (const std::exception &) {
    }
    if (used == 0 || used != text.size()) wrong("not a whole number: '" + text + "'");
    return value;
}

double to_number(const std::string &text) {
    size_t used = 0;
    double value = 0;
    try {
        value = std::stod(text, &used);
    } catch (const std::exception &) {
    }
    if (used == 0 || used != text.size()) wrong("not a number: '" + text + "'");
    return value;
}

template <class T>
T one_of(const std::string &text, const std::vector<std::pair<const char *, T>> &names) {
    for (const auto &[name, value] : names)
        if (text == name) return value;
    wrong("unknown value '" + text + "'");
}

std::vector<int32_t> to_lengths(const std::string &text) {
    std::vector<int32_t> lengths;
    for (const std::string &part : split(text, ',')) {
        const size_t dots = part.find("..");
        if (dots == std::string::npos) {
            lengths.push_back((int32_t)to_int(part));
            continue;
        }
        const long last = to_int(part.substr(dots + 2));
        for (long length = to_int(part.substr(0, dots)); length <= last; length++)
            lengths.push_back((int32_t)length);
    }
    return lengths;
}

void set_lengths(Case &c, const std::string &text) {
    if (text == "none") return;
    const std::vector<std::string> sides = split(text, '/');
    if (sides.empty() || sides.size() > 2) wrong("seqs needs lengths, or lengths/lengths");
    c.len_q = to_lengths(sides[0]);
    c.len_k = to_lengths(sides.back());
    if (c.len_k.size() == 1) c.len_k.resize(c.len_q.size(), c.len_k[0]);
    if (c.len_q.size() == 1) c.len_q.resize(c.len_k.size(), c.len_q[0]);
    if (c.len_q.size() != c.len_k.size()) wrong("seqs has more lengths on one side");
}

void set(Case &c, const std::string &key, const std::string &value) {
    using Strides = Layout::Strides;
    using Lse = Layout::Lse;
    if (key == "seqs")
        set_lengths(c, value);
    else if (key == "hq")
        c.heads_q = (int)to_int(value);
    else if (key == "hkv")
        c.heads_kv = (int)to_int(value);
    else if (key == "d")
        c.d = (int)to_int(value);
    else if (key == "dv")
        c.dv = (int)to_int(value);
    else if (key == "dtype")
        c.dtype = one_of<vfa_dtype>(
            value, {{"bf16", VFA_DTYPE_BF16}, {"f16", VFA_DTYPE_F16}, {"f32", VFA_DTYPE_F32}});
    else if (key == "causal")
        c.causal = one_of<vfa_causal>(value, {{"none", VFA_CAUSAL_NONE},
                                              {"top_left", VFA_CAUSAL_TOP_LEFT},
                                              {"bottom_right", VFA_CAUSAL_BOTTOM_RIGHT}});
    else if (key == "window") {
        const std::vector<std::string> ends = split(value, ',');
        if (ends.size() != 2) wrong("window needs left,right");
        c.window_left = (int32_t)to_int(ends[0]);
        c.window_right = (int32_t)to_int(ends[1]);
    } else if (key == "scale") {
        if (value != "default") c.scale = (float)to_number(value);
    } else if (key == "softcap")
        c.softcap = (float)to_number(value);
    else if (key == "amp")
        c.amp = to_number(value);
    else if (key == "alibi" && value.empty())
        c.alibi = true;
    else if (key == "sink")
        c.sinks = one_of<Sinks>(value, {{"", Sinks::some}, {"none", Sinks::minus_infinity}});
    else if (key == "o_f32" && value.empty())
        c.o_f32 = true;
    else if (key == "strides")
        c.layout.strides = one_of<Strides>(value, {{"packed", Strides::packed},
                                                   {"padded", Strides::padded},
                                                   {"fused", Strides::fused},
                                                   {"heads", Strides::heads}});
    else if (key == "lse")
        c.layout.lse = one_of<Lse>(value, {{"packed", Lse::packed},
                                           {"padded", Lse::padded},
                                           {"heads", Lse::heads},
                                           {"none", Lse::none}});
    else if (key == "gaps" && value.empty())
        c.layout.gaps = true;
    else if (key == "tails" && value.empty())
        c.layout.tails = true;
    else if (key == "hints" && value.empty())
        c.layout.hints = true;
    else if (key == "offset" && value.empty())
        c.layout.offset = true;
    else
        wrong("unknown setting '" + key + (value.empty() ? "'" : "=" + value + "'"));
}

// The settings of a line, each with its values.
struct Setting {
    std::string key;
    std::vector<std::string> values;
};

std::vector<Setting> parse_settings(const std::string &line) {
    std::vector<Setting> settings;
    std::istringstream words(line);
    std::string word;
    while (words >> word && word[0] != '#') {
        const size_t equals = word.find('=');
        Setting setting{word.substr(0, equals), {""}};
        if (equals != std::string::npos) {
            const std::string value = word.substr(equals + 1);
            if (setting.key == "seqs")
                setting.values = {value};
            else
                setting.values = split(value, setting.key == "window" ? ';' : ',');
            if (setting.values.empty()) wrong(word + " has no value");
        }
        settings.push_back(setting);
    }
    return settings;
}

} // namespace

int64_t Case::total_q() const { return std::accumulate(len_q.begin(), len_q.end(), (int64_t)0); }
int64_t Case::total_k() const { return std::accumulate(len_k.begin(), len_k.end(), (int64_t)0); }

float Case::used_scale() const { return scale ? *scale : (float)(1 / std::sqrt((double)d)); }

std::vector<Case> parse_cases(const std::string &line) {
    const std::vector<Setting> settings = parse_settings(line);
    if (settings.empty()) return {};
    std::vector<Case> cases;
    std::vector<size_t> choice(settings.size(), 0); // counts through all combinations
    for (;;) {
        Case c;
        c.dv = 0;
        for (size_t n = 0; n < settings.size(); n++) {
            const std::string &key = settings[n].key, &value = settings[n].values[choice[n]];
            set(c, key, value);
            c.text += (n ? " " : "") + key + (value.empty() ? "" : "=" + value);
        }
        if (c.dv == 0) c.dv = c.d;
        cases.push_back(c);
        size_t n = 0;
        while (n < settings.size() && ++choice[n] == settings[n].values.size()) choice[n++] = 0;
        if (n == settings.size()) return cases;
    }
}

Case parse_case(const std::string &line) {
    const std::vector<Case> cases = parse_cases(line);
    if (cases.size() != 1) wrong("not one case: '" + line + "'");
    return cases[0];
}

std::string random_line(uint64_t seed) {
    Random random(seed);
    const auto one_in = [&](int64_t n) { return random.below(n) == 0; };
    const auto pick = [&](std::initializer_list<const char *> words) {
        return std::string(words.begin()[random.below((int64_t)words.size())]);
    };
    const auto number = [](int64_t value) { return std::to_string(value); };

    const int64_t most = one_in(4) ? 300 : one_in(2) ? 100 : 20;
    std::string q, k;
    for (int64_t n = 1 + random.below(6); n > 0; n--) {
        const int64_t length = random.below(8) ? 1 + random.below(most) : 0;
        const int64_t other = one_in(2) ? length : random.below(6) ? 1 + random.below(most) : 0;
        q += (q.empty() ? "" : ",") + number(length);
        k += (k.empty() ? "" : ",") + number(other);
    }
    const int64_t heads_kv = 1 + random.below(3), group = one_in(2) ? 1 : 1 + random.below(9);
    std::string line = "seqs=" + q + "/" + k + " hq=" + number(heads_kv * group) +
                       " hkv=" + number(heads_kv) + " d=" + number(1 + random.below(256));
    if (one_in(3)) line += " dv=" + number(1 + random.below(256));
    line += " dtype=" + pick({"bf16", "f16", "f32"});
    line += " causal=" + pick({"none", "none", "top_left", "bottom_right"});
    if (one_in(3)) {
        const auto end = [&] { return one_in(3) ? number(-1) : number(random.below(most)); };
        line += " window=" + end() + ",";
        line += end();
    }
    if (one_in(4)) line += " scale=" + pick({"0", "-0.2", "0.05", "1"});
    if (one_in(5)) line += " softcap=" + pick({"1", "15", "50"});
    if (one_in(4)) line += " amp=" + pick({"0.1", "3", "10", "60"});
    if (one_in(4)) line += " alibi";
    if (one_in(4)) line += pick({" sink", " sink", " sink=none"});
    if (one_in(2)) line += " strides=" + pick({"padded", "fused", "heads"});
    if (one_in(2)) line += " lse=" + pick({"padded", "heads", "none"});
    for (const char *flag : {" o_f32", " gaps", " tails", " hints", " offset"})
        if (one_in(3)) line += flag;
    return line;
}

Problem make_problem(const Case &c, uint64_t seed) {
    for (const char letter : c.text) seed = (seed ^ (unsigned char)letter) * 0x100000001b3; // FNV
    Random random(seed);
    Problem p{c, {}, {}, {}, {}, {}};
    const Format &format = format_of(c.dtype);
    const auto fill = [&](std::vector<float> &values, int64_t count, double amp) {
        values.resize((size_t)count);
        for (float &value : values) value = (float)rounded(random.normal() * amp, format);
    };
    fill(p.q, c.total_q() * c.heads_q * c.d, c.amp);
    fill(p.k, c.total_k() * c.heads_kv * c.d, c.amp);
    fill(p.v, c.total_k() * c.heads_kv * c.dv, 1);
    for (int h = 0; c.alibi && h < c.heads_q; h++) {
        const double slope = std::ldexp(1 + 0.25 * random.uniform(), -1 - h % 6);
        p.slopes.push_back(h % 7 == 5 ? 0.0f : h % 7 == 3 ? (float)-slope / 8 : (float)slope);
    }
    for (int h = 0; c.sinks != Sinks::off && h < c.heads_q; h++) {
        const bool none = c.sinks == Sinks::minus_infinity || h % 4 == 3;
        const float logit = (float)(2 * random.normal() + (h % 5 == 2 ? 8 : 0));
        p.sink_logits.push_back(none ? -std::numeric_limits<float>::infinity() : logit);
    }
    return p;
}

} // namespace conform
