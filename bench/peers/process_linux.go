package peers

import (
	"os/exec"
	"syscall"
)

// dieWithParent makes the program end with the benchmark, however that ends.
func dieWithParent(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
