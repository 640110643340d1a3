package progress

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

func Example() {
	var r Request
	ctx := With(context.Background(), &r)

	done := Of(ctx).Fetch()
	Of(ctx).Arrive(1000)
	fmt.Println(r.Stage(), r.Arrived(), "bytes")
	done()
	Of(ctx).Evaluate(240)
	fmt.Println(r.Stage(), r.Evaluated(), "samples")
	Of(ctx).End()
	fmt.Println(r.Stage())
	// Output:
	// fetching 1000 bytes
	// evaluating 240 samples
	// writing
}

// TestNobodyLooks: work that nobody looks at may tell of itself as well.
func TestNobodyLooks(t *testing.T) {
	r := Of(t.Context())
	require.Nil(t, r)
	r.Fetch()()
	r.Arrive(1)
	r.Evaluate(1)
	r.End()
}
