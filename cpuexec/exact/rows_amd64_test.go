package exact

import "testing"

// TestNarrowRows is TestRows without AVX-512.
func TestNarrowRows(t *testing.T) {
	defer func(wide bool) { hasWide = wide }(hasWide)
	hasWide = false
	TestRows(t)
}
