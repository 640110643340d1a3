package measure

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestMedian(t *testing.T) {
	calls := 0
	ms, err := Median(4, time.Minute, func() error { calls++; time.Sleep(time.Millisecond); return nil })
	require.NoError(t, err)
	require.Equal(t, 5, calls, "and one to warm up")
	require.GreaterOrEqual(t, ms, 1.0)

	calls = 0
	ms, err = Median(4, time.Nanosecond, func() error { calls++; time.Sleep(time.Millisecond); return nil })
	require.NoError(t, err)
	require.Equal(t, 1, calls, "beyond the budget the first one counts")
	require.GreaterOrEqual(t, ms, 1.0)

	failed := errors.New("failed")
	_, err = Median(1, time.Minute, func() error { return failed })
	require.ErrorIs(t, err, failed)
}

func TestTable(t *testing.T) {
	table := Table{Title: "Two.", Head: []string{"a", "way"}}
	table.Add("1×", "x")
	table.Add("22")
	var b strings.Builder
	require.NoError(t, table.Write(&b))
	require.Equal(t, "\nTwo.\n\n| a  | way |\n| --- | --- |\n| 1× | x   |\n| 22 |     |\n", b.String())
}

func TestNumber(t *testing.T) {
	for v, want := range map[float64]string{0: "", 0.01234: "0.012", 0.5: "0.50", 12.34: "12.3", 1234.5: "1234"} {
		require.Equal(t, want, Number(v))
	}
	require.Equal(t, "2.00×", Times(4, 2))
	require.Empty(t, Times(0, 2))
}
