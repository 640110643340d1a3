package selection

import (
	"context"

	"github.com/prometheus/prometheus/model/labels"
)

type expectKey struct{}

// Expect returns a context in which a fetch is expected to bring the given series,
// in label order, or some of them: whoever makes its selection may use these labels
// instead of making equal ones.
func Expect(ctx context.Context, series []labels.Labels) context.Context {
	return context.WithValue(ctx, expectKey{}, series)
}

// Expected returns the series that a fetch is expected to bring.
func Expected(ctx context.Context) []labels.Labels {
	series, _ := ctx.Value(expectKey{}).([]labels.Labels)
	return series
}
