package peers

import (
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
