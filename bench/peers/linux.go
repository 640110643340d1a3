package peers

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// CPU is the time that the process has run on cores since its start, its own and the kernel's
// for it.
func (p *Process) CPU() (time.Duration, error) {
	const scheduled = 2 // of the clocks that a process has the one of all its threads
	var t unix.Timespec
	if err := unix.ClockGettime(int32(^p.Cmd.Process.Pid<<3|scheduled), &t); err != nil {
		return 0, err
	}
	return time.Duration(t.Nano()), nil
}

// onCores has start start a program on so many cores of those that this program may run on, on all of
// them for 0. A program inherits the cores of the thread that starts it.
func onCores(cores int, start func() error) (err error) {
	if cores == 0 {
		return start()
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var all unix.CPUSet
	if err := unix.SchedGetaffinity(0, &all); err != nil {
		return fmt.Errorf("which cores there are: %w", err)
	}
	order := spread(&all)
	if cores > len(order) {
		return fmt.Errorf("%d cores are asked for, and there are %d", cores, len(order))
	}
	var few unix.CPUSet
	for _, cpu := range order[:cores] {
		few.Set(cpu)
	}
	if err := unix.SchedSetaffinity(0, &few); err != nil {
		return fmt.Errorf("run on %d cores: %w", cores, err)
	}
	defer func() { err = errors.Join(err, unix.SchedSetaffinity(0, &all)) }()
	return start()
}

// spread is the order in which cores are given to programs that may have only some: the first thread
// of each physical core, where the system tells threads apart, before any second one.
func spread(all *unix.CPUSet) []int {
	var cpus []int
	for cpu := range len(all) * 64 {
		if all.IsSet(cpu) {
			cpus = append(cpus, cpu)
		}
	}
	threads := make(map[int]int, len(cpus)) // which of its core's threads each is
	for _, cpu := range cpus {
		list, err := os.ReadFile(fmt.Sprintf("/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list", cpu))
		if err == nil {
			threads[cpu] = slices.Index(parseList(string(list)), cpu)
		}
	}
	slices.SortStableFunc(cpus, func(a, b int) int { return cmp.Compare(threads[a], threads[b]) })
	return cpus
}

// parseList reads a list of numbers as the kernel writes it, "0-3,8". What is no number is left out.
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
