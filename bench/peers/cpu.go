package peers

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// clockTick is the unit of times in a process's stat: Linux shows 100 a second to all programs.
const clockTick = time.Second / 100

// CPU is the time that the process has run on cores since its start, its own and the kernel's
// for it, in steps of clockTick.
func (p *Process) CPU() (time.Duration, error) {
	stat, err := os.ReadFile(p.proc("stat"))
	if err != nil {
		return 0, err
	}
	return parseCPU(string(stat))
}

// parseCPU reads user and system time from a process's stat. The name of the program, in
// brackets, may hold anything.
func parseCPU(stat string) (time.Duration, error) {
	fields := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
	const user, system = 11, 12 // after the name
	if len(fields) <= system {
		return 0, fmt.Errorf("a process's stat is %q", stat)
	}
	ticks := time.Duration(0)
	for _, f := range fields[user : system+1] {
		n, err := strconv.ParseInt(f, 10, 64)
		if err != nil {
			return 0, err
		}
		ticks += time.Duration(n)
	}
	return ticks * clockTick, nil
}
