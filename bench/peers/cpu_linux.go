package peers

import (
	"fmt"
	"os"
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

// spread is the order in which cores are given to programs that may have only some: the first
// thread of each physical core, where the system tells threads apart, before any other one.
func spread() ([]int, error) {
	var allowed unix.CPUSet
	if err := unix.SchedGetaffinity(0, &allowed); err != nil {
		return nil, err
	}
	var firsts, others []int
	for cpu := 0; len(firsts)+len(others) < allowed.Count(); cpu++ {
		first := cpu
		threads, _ := os.ReadFile(fmt.Sprintf("/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list", cpu))
		_, _ = fmt.Sscanf(string(threads), "%d", &first) // of a list as 0,8 or 0-1
		switch {
		case !allowed.IsSet(cpu):
		case first == cpu:
			firsts = append(firsts, cpu)
		default:
			others = append(others, cpu)
		}
	}
	return append(firsts, others...), nil
}
