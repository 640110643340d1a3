package terminal

import (
	"bytes"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestFit(t *testing.T) {
	require.Equal(t, "rate(…", Fit("rate(m[5m])", 6))
	require.Equal(t, "µµ", Fit("µµ", 2))
	require.Equal(t, "whole", Fit("whole", 0))
}

func TestStyle(t *testing.T) {
	require.Equal(t, "\x1b[31mbad\x1b[0m", Style(true).Bad("bad"))
	require.Equal(t, "bad", Style(false).Bad("bad"))
	require.False(t, bool(StyleOf(&bytes.Buffer{})))
}

// TestProgress: elsewhere than on a terminal a line comes every five seconds, where one is wanted.
func TestProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b bytes.Buffer
		stop := NewProgress(&b, true).While("asking")
		time.Sleep(12 * time.Second)
		synctest.Wait()
		stop()
		require.Equal(t, "asking: 5 s\nasking: 10 s\n", b.String())

		b.Reset()
		p := NewProgress(&b, false)
		time.Sleep(time.Minute)
		p.Show("nobody looks")
		p.Clear()
		require.Empty(t, b.String())
	})
}

// TestProgressOnTerminal: a shorter line covers the one before, and nothing stays.
func TestProgressOnTerminal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b bytes.Buffer
		p := &Progress{w: &b, terminal: true, every: everyOnTerminal}
		p.Show("fetching %d", 10)
		p.Show("too soon")
		time.Sleep(everyOnTerminal)
		p.Show("done")
		p.Clear()
		require.Equal(t, "\rfetching 10\rdone       \r    \r", b.String())
	})
}
