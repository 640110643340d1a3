//go:build !linux

package peers

import (
	"errors"
	"os/exec"
	"time"
)

var errOtherSystem = errors.New("only Linux can choose a program's cores and say how long it has run on them")

// dieWithParent does nothing: only Linux can.
func dieWithParent(*exec.Cmd) {}

// CPU returns an error.
func (*Process) CPU() (time.Duration, error) { return 0, errOtherSystem }

// startOn starts the program on all cores.
func startOn(cmd *exec.Cmd, cores int) error {
	if cores > 0 {
		return errOtherSystem
	}
	return cmd.Start()
}
