package remoteread

import (
	"fmt"
	"testing"
	"time"

	"github.com/prometheus/prometheus/prompb"
	"github.com/stretchr/testify/require"
)

func TestMemory(t *testing.T) {
	var m recent[int]
	_, ok := m.get("0")
	require.False(t, ok)
	for i := range 3 * maxRemembered {
		m.add(fmt.Sprint(i), i)
		got, ok := m.get(fmt.Sprint(i))
		require.True(t, ok)
		require.Equal(t, i, got)
	}
	require.LessOrEqual(t, len(m.all), maxRemembered)
	m.all["0"] = remembered[int]{7, time.Now().Add(-time.Second)}
	_, ok = m.get("0")
	require.False(t, ok)
}

func TestSelectorKey(t *testing.T) {
	require.NotEqual(t, selectorKey([]*prompb.LabelMatcher{{Name: "a", Value: `b"1"c`}}), selectorKey([]*prompb.LabelMatcher{{Name: `a"b`, Value: "c"}}))
}
