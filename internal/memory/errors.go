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
	return fmt.Sprintf("promwarp is out of memory for the moment: other requests hold what --%s=%d MiB leaves; try again, or raise the limit", FlagLimit, e.Limit>>20)
}

// TooLargeError is the error of a lease that does not fit even if nobody else held anything.
type TooLargeError struct{ Limit int64 }

func (e *TooLargeError) Error() string {
	return fmt.Sprintf("the request needs more memory than promwarp has, which is --%s=%d MiB: ask for fewer series or a shorter time, or raise the limit", FlagLimit, e.Limit>>20)
}

// Exhausted reports whether err is of a lease that did not fit.
func Exhausted(err error) bool {
	return errors.As(err, new(*BusyError)) || errors.As(err, new(*TooLargeError))
}
