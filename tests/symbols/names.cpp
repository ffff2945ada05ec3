// Namespaces, overloads, templates, operators, members.
#include <cstdio>
#include <vector>

namespace app {
struct Job {
    int cost;
    __attribute__((noinline)) int run(int scale) const { return cost * scale; }
    __attribute__((noinline)) bool operator==(const Job &other) const { return cost == other.cost; }
};

__attribute__((noinline)) int work(int a) { return a * 3; }
__attribute__((noinline)) int work(const char *text) { return text[0]; }

template <typename T> __attribute__((noinline)) T scale(T a) { return a * 5; }

namespace inner {
__attribute__((noinline)) int only(int a) { return a + 1; }
} // namespace inner

__attribute__((noinline)) long total(const std::vector<Job> &jobs) {
    long sum = 0;
    for (const Job &job : jobs) // line: iterate
        sum += job.cost;        // line: add
    return sum;
}
} // namespace app

int main(int argc, char **argv) {
    std::vector<app::Job> jobs;
    for (int i = 0; i < argc * 100; i++)
        jobs.push_back(app::Job{i}); // line: push
    long sum = app::total(jobs) + app::work(argc) + app::work(argv[0]) + app::scale(argc) + (long)app::scale(1.5 * argc);
    std::printf("%ld %d %d\n", sum + app::inner::only(argc), jobs[0].run(argc), jobs[0] == jobs[1]);
    return 0;
}
