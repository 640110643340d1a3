//go:build !linux

package peers

import (
	"errors"
	"time"
)

var errOtherSystem = errors.New("only Linux can choose a program's cores and say how long it has run on them")

// CPU returns an error.
func (*Process) CPU() (time.Duration, error) { return 0, errOtherSystem }

// onCores has start start a program on all cores.
func onCores(cores int, start func() error) error {
	if cores > 0 {
		return errOtherSystem
	}
	return start()
}
