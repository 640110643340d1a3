package e2e

import (
	"os/exec"
	"syscall"
)

// dieWithParent makes the program end with the test, however that ends.
func dieWithParent(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
