package programs

import (
	"os/exec"
	"syscall"
)

// dieWithParent makes the program end with its parent, however that ends.
func dieWithParent(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
