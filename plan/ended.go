package plan

import (
	"context"
	"errors"

	"github.com/prometheus/prometheus/promql"
)

// Ended returns Prometheus's error for a query whose context has ended: an ErrQueryTimeout at
// its deadline, an ErrQueryCanceled else, and nil while it has not.
func Ended(ctx context.Context) error {
	switch err := ctx.Err(); {
	case err == nil:
		return nil
	case errors.Is(err, context.DeadlineExceeded):
		return promql.ErrQueryTimeout("expression evaluation")
	default:
		return promql.ErrQueryCanceled("expression evaluation")
	}
}
