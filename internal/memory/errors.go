package memory

import (
	"errors"
	"fmt"
)

// FlagLimit is the flag that sets the memory of the process.
const FlagLimit = "memory.limit"

// BusyError is the error of a lease that does not fit beside what others hold at present.
type BusyError struct{ Limit int64 }

func (e *BusyError) Error() string {
	return fmt.Sprintf("promwarp is out of memory for the moment: other requests hold what --%s=%s leaves; try again, or raise the limit", FlagLimit, Size(e.Limit))
}

// TooLargeError is the error of a lease that does not fit even if nobody else held anything.
type TooLargeError struct{ Limit int64 }

func (e *TooLargeError) Error() string {
	return fmt.Sprintf("the request needs more memory than promwarp has, which is --%s=%s: ask for fewer series or a shorter time, or raise the limit", FlagLimit, Size(e.Limit))
}

// Size is a number of bytes as errors have it: in MiB, or in a smaller unit where it is less than one.
func Size(n int64) string {
	switch {
	case n == 1:
		return "1 byte"
	case n < 1<<10:
		return fmt.Sprintf("%d bytes", n)
	case n < 1<<20:
		return fmt.Sprintf("%d KiB", n>>10)
	}
	return fmt.Sprintf("%d MiB", n>>20)
}

// Exhausted reports whether err is of a lease that did not fit.
func Exhausted(err error) bool {
	return errors.As(err, new(*BusyError)) || errors.As(err, new(*TooLargeError))
}
