package peers

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// PeakRSS is the most memory in bytes that the process held at once since its
// start or the last ResetPeakRSS: the kernel's VmHWM, which counts pages of
// mapped files, too. It is 0 where the system does not say, and for a process
// that has ended.
func (p *Process) PeakRSS() int64 {
	status, err := os.ReadFile(p.proc("status"))
	if err != nil {
		return 0
	}
	return parsePeak(string(status))
}

// ResetPeakRSS makes PeakRSS count anew, where the system can.
func (p *Process) ResetPeakRSS() {
	_ = os.WriteFile(p.proc("clear_refs"), []byte("5"), 0o200)
}

func (p *Process) proc(file string) string {
	return fmt.Sprintf("/proc/%d/%s", p.cmd.Process.Pid, file)
}

// parsePeak reads the peak in bytes from a process's status, 0 if it is not there.
func parsePeak(status string) int64 {
	_, rest, ok := strings.Cut(status, "\nVmHWM:")
	if !ok {
		return 0
	}
	line, _, _ := strings.Cut(rest, "\n")
	kib, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(line, "kB")), 10, 64)
	if err != nil {
		return 0
	}
	return kib << 10
}
