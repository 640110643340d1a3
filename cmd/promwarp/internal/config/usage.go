package config

import "fmt"

// UsageError marks an error as one of the command line or the configuration.
type UsageError struct{ err error }

func (e UsageError) Error() string { return e.err.Error() }
func (e UsageError) Unwrap() error { return e.err }

// Usagef returns a UsageError.
func Usagef(format string, args ...any) error { return UsageError{fmt.Errorf(format, args...)} }

// Usage marks err as one of the command line or the configuration.
func Usage(err error) error { return UsageError{err} }
