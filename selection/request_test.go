package selection

import (
	"fmt"
	"testing"
)

func ExampleProgress() {
	var r Progress

	done := r.Fetch()
	r.Arrive(1000)
	fmt.Println(r.Stage(), r.Arrived(), "bytes")
	done()
	r.Evaluate(240)
	fmt.Println(r.Stage(), r.Evaluated(), "samples")
	r.End()
	fmt.Println(r.Stage())
	// Output:
	// fetching 1000 bytes
	// evaluating 240 samples
	// writing
}

// TestNobodyLooks: work may report its progress without a listener as well.
func TestNobodyLooks(t *testing.T) {
	var r *Progress
	r.Fetch()()
	r.Arrive(1)
	r.Evaluate(1)
	r.End()
}
