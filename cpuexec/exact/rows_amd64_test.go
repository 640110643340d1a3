package exact

import "testing"

// TestNarrow is TestRows, TestVariances and TestRunning without AVX-512.
func TestNarrow(t *testing.T) {
	defer func(wide bool) { hasWide = wide }(hasWide)
	hasWide = false
	t.Run("rows", TestRows)
	t.Run("variances", TestVariances)
	t.Run("running", TestRunning)
}
