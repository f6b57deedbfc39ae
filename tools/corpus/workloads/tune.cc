#include <algorithm>
#include <functional>
#include <map>
#include <numeric>
#include <optional>
#include <ranges>
#include <regex>
#include <string>
#include <tuple>
#include <unordered_map>
#include <variant>
#include <vector>
// Many types, and much to be instantiated for each.
template <int N> struct Tag { int a[N % 7 + 1]; friend auto operator<=>(const Tag &, const Tag &) = default; };
template <int N> long work(const std::vector<std::string> &in) {
	std::map<std::string, std::vector<Tag<N>>> m;
	std::unordered_map<std::string, std::variant<int, std::string, Tag<N>>> u;
	std::function<long(long)> f = [&](long x) { return x + N; };
	for (auto &s : in | std::views::filter([](auto &s) { return s.size() > N % 5; })) { m[s].push_back({}); u[s] = Tag<N>{}; }
	std::vector<std::tuple<int, std::string, Tag<N>>> t;
	for (auto &[k, v] : m) t.emplace_back(int(v.size()), k, Tag<N>{});
	std::ranges::sort(t);
	return f(std::accumulate(t.begin(), t.end(), 0L, [](long a, auto &x) { return a + std::get<0>(x); })) + long(u.size());
}
template <int... N> long all(const std::vector<std::string> &in, std::integer_sequence<int, N...>) { return (work<N>(in) + ...); }
int main(int n, char **v) {
	std::vector<std::string> in(v, v + n);
	return int(all(in, std::make_integer_sequence<int, 60>{})) + std::regex_match(in[0], std::regex("a.*b"));
}
