package planner

import (
	"fmt"
	"strings"
)

// maxErrorText is the most bytes of a query that does not parse, and of what is said of a
// longer one.
const maxErrorText = 4 << 10

// boundedError is an error whose text is cut.
type boundedError struct {
	error
	text string
}

func (e boundedError) Error() string { return e.text }
func (e boundedError) Unwrap() error { return e.error }

// bounded returns err, whose text is cut if query is long: what a parser says of a query may
// repeat it.
func bounded(err error, query string) error {
	if err == nil || len(query) <= maxErrorText {
		return err
	}
	text := err.Error()
	if len(text) <= maxErrorText {
		return err
	}
	return boundedError{err, fmt.Sprintf("%s… (%d bytes more)", strings.ToValidUTF8(text[:maxErrorText], ""), len(text)-maxErrorText)}
}
