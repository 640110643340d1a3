package backend

import (
	"bytes"
	"log/slog"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestActiveFile: a process that is killed leaves its queries to be named by the next, and one that
// has more at once than the file holds waits for none.
func TestActiveFile(t *testing.T) {
	const variable = "PROMWARP_TEST_ACTIVE"
	if dir := os.Getenv(variable); dir != "" {
		file, err := OpenActiveFile(dir, slog.New(slog.DiscardHandler))
		require.NoError(t, err)
		ended, err := tracker{1, file}.Insert(t.Context(), "sum(ended)")
		require.NoError(t, err)
		_, err = tracker{1, file}.Insert(t.Context(), "sum(running)")
		require.NoError(t, err)
		tracker{1, file}.Delete(ended)
		require.NoError(t, syscall.Kill(os.Getpid(), syscall.SIGKILL))
		select {}
	}
	dir := t.TempDir()
	killed := exec.Command(os.Args[0], "-test.run=^TestActiveFile$")
	killed.Env = append(os.Environ(), variable+"="+dir)
	require.ErrorContains(t, killed.Run(), "signal: killed")

	var log bytes.Buffer
	file, err := OpenActiveFile(dir, slog.New(slog.NewTextHandler(&log, nil)))
	require.NoError(t, err)
	require.Contains(t, log.String(), "sum(running)")
	require.NotContains(t, log.String(), "sum(ended)")

	active := tracker{1, file}
	var slots []int
	for range activeSlots + 1 {
		slot, err := active.Insert(t.Context(), "up")
		require.NoError(t, err)
		slots = append(slots, slot)
	}
	require.Equal(t, notListed, slots[activeSlots])
	for _, slot := range slots {
		active.Delete(slot)
	}
	slot, err := active.Insert(t.Context(), "up")
	require.NoError(t, err)
	require.NotEqual(t, notListed, slot)
	require.Equal(t, 7, tracker{7, nil}.GetMaxConcurrent())
	slot, err = tracker{7, nil}.Insert(t.Context(), "up")
	require.NoError(t, err)
	tracker{7, nil}.Delete(slot)
}
