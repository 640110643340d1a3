// Package testfiles writes the files that tests of the program read.
package testfiles

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb"
	"github.com/stretchr/testify/require"
)

// Config writes text to a configuration file in a new directory and returns its path.
func Config(t testing.TB, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "promwarp.yml")
	require.NoError(t, os.WriteFile(file, []byte(text), 0o666))
	return file
}

// DataDirectory makes a Prometheus data directory with one sample a minute for an hour of
// m{i="0"}, whose values count the minutes, and of m{i="1"}, which has twice these values. It
// returns its path.
func DataDirectory(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	db, err := tsdb.Open(dir, nil, nil, tsdb.DefaultOptions(), nil)
	require.NoError(t, err)
	app := db.Appender(context.Background())
	for i := range 2 {
		var ref storage.SeriesRef
		for m := range int64(60) {
			ref, err = app.Append(ref, labels.FromStrings("__name__", "m", "i", fmt.Sprint(i)), m*60_000, float64(m*int64(i+1)))
			require.NoError(t, err)
		}
	}
	require.NoError(t, app.Commit())
	require.NoError(t, db.Close())
	return dir
}
