package peers

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
)

// pinned is the command that runs a program on its number of cores, which this program may run on,
// too; on all of these for 0.
func pinned(program Program) ([]string, error) {
	if program.Cores == 0 {
		return []string{program.Path}, nil
	}
	order, err := spread()
	if err != nil {
		return nil, fmt.Errorf("which cores there are: %w", err)
	}
	if program.Cores > len(order) {
		return nil, fmt.Errorf("%d cores are asked for, and there are %d", program.Cores, len(order))
	}
	list := strings.Trim(strings.ReplaceAll(fmt.Sprint(order[:program.Cores]), " ", ","), "[]")
	return []string{"taskset", "-c", list, program.Path}, nil
}

// spread is the order in which cores are given to programs that may have only some: the first
// thread of each physical core, where the system tells threads apart, before any second one.
func spread() ([]int, error) {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return nil, err
	}
	_, list, _ := strings.Cut(string(status), "Cpus_allowed_list:")
	list, _, _ = strings.Cut(list, "\n")
	cpus := parseList(list)
	threads := make(map[int]int, len(cpus)) // which of its core's threads each is
	for _, cpu := range cpus {
		list, err := os.ReadFile(fmt.Sprintf("/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list", cpu))
		if err == nil {
			threads[cpu] = slices.Index(parseList(string(list)), cpu)
		}
	}
	slices.SortStableFunc(cpus, func(a, b int) int { return cmp.Compare(threads[a], threads[b]) })
	return cpus, nil
}

// parseList reads a list of numbers as the kernel writes it, "0-3,8". What is no number is left
// out.
func parseList(s string) (list []int) {
	for part := range strings.SplitSeq(strings.TrimSpace(s), ",") {
		from, to, ok := strings.Cut(part, "-")
		if !ok {
			to = from
		}
		first, err := strconv.Atoi(from)
		last, err2 := strconv.Atoi(to)
		for n := first; err == nil && err2 == nil && n <= last; n++ {
			list = append(list, n)
		}
	}
	return list
}
