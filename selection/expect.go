package selection

import (
	"context"

	"github.com/prometheus/prometheus/model/labels"
)

// Expectation is what is known beforehand of what a fetch will bring.
type Expectation struct {
	// Series are those that it brings, in label order, or those and others, or some
	// of them: whoever makes its selection may use these labels instead of making
	// equal ones.
	Series []labels.Labels
	// Samples is about how many samples a series has in the time range; 0 when that
	// is not known. It is more only where everything known of the series lies in
	// plain XOR chunks, so that nothing is lost with a source that sends times and
	// values instead.
	Samples int
	// Signed reports of a series, by its place in Series, whether it has had values
	// below 0 lately, or -0. Only of one that has, a sample of value 0 may be -0, which most
	// sources send alike among times and values; then chunks are fetched. Nil means that
	// any series may have had.
	Signed func(series int) bool
	// Ahead says that nobody waits for the fetch, so that its source is not to be asked
	// for parts of it at once.
	Ahead bool
}

type expectKey struct{}

// Expect returns a context in which a fetch is expected to bring e.
func Expect(ctx context.Context, e Expectation) context.Context {
	return context.WithValue(ctx, expectKey{}, e)
}

// Expected returns what a fetch is expected to bring.
func Expected(ctx context.Context) Expectation {
	e, _ := ctx.Value(expectKey{}).(Expectation)
	return e
}
