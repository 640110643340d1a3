package selection

import "github.com/prometheus/prometheus/storage"

// Again is the error of a selector that can only be answered otherwise than those
// before it in the same query were. The query is to be run again over Queryable,
// over which all are answered alike.
type Again struct {
	Queryable storage.Queryable
	Err       error // why
}

func (a *Again) Error() string { return a.Err.Error() }
func (a *Again) Unwrap() error { return a.Err }
