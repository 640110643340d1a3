package timing

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestMedian(t *testing.T) {
	calls := 0
	ms, err := Limits{4, time.Minute}.Median(func() error { calls++; time.Sleep(time.Millisecond); return nil })
	require.NoError(t, err)
	require.Equal(t, 5, calls, "and one to warm up")
	require.GreaterOrEqual(t, ms, 1.0)

	calls = 0
	ms, err = Limits{4, time.Nanosecond}.Median(func() error { calls++; time.Sleep(time.Millisecond); return nil })
	require.NoError(t, err)
	require.Equal(t, 1, calls, "beyond the budget the first one counts")
	require.GreaterOrEqual(t, ms, 1.0)

	failed := errors.New("failed")
	_, err = Limits{1, time.Minute}.Median(func() error { return failed })
	require.ErrorIs(t, err, failed)
}
