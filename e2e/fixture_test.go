package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/e2e/programs"
	"github.com/promwarp/promwarp/internal/dataset"
)

// fixture is the upstream that several tests share: a Prometheus with a day of
// data up to now.
type fixture struct {
	*process
	dir   string // its data directory is dir/data
	stats dataset.Stats
	grid  grid
}

// grid is what a dashboard over the whole data set asks for.
type grid struct {
	start, end time.Time
	step       time.Duration
}

var (
	fixtureMu     sync.Mutex
	sharedFixture *fixture
	errFixture    error
)

// upstream returns the shared fixture, started by the first test that asks.
func upstream(t *testing.T) *fixture {
	t.Helper()
	fixtureMu.Lock()
	defer fixtureMu.Unlock()
	if sharedFixture == nil && errFixture == nil {
		sharedFixture, errFixture = startFixture()
		if errFixture == nil {
			s := sharedFixture.stats
			t.Logf("data set: %d series, %d samples, until %d", s.Series, s.Samples, sharedFixture.grid.end.Unix())
		}
	}
	require.NoError(t, errFixture)
	return sharedFixture
}

func startFixture() (f *fixture, err error) {
	f = &fixture{}
	if f.dir, err = os.MkdirTemp("", "promwarp-e2e-data-"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(f.dir))
		}
	}()
	series, err := envInt("E2E_SERIES", 3400)
	if err != nil {
		return nil, err
	}
	unix, err := envInt("E2E_END", time.Now().Truncate(time.Minute).Unix())
	if err != nil {
		return nil, err
	}
	end := time.Unix(unix, 0)
	f.grid = grid{start: end.Add(-24 * time.Hour), end: end, step: time.Minute}
	o := dataset.Options{Start: f.grid.start.UnixMilli(), End: end.UnixMilli(), Series: int(series), Seed: 1}
	p, stats, err := programs.StartFilled(context.Background(), prometheusBin, f.dir, o)
	if err != nil {
		return nil, err
	}
	f.process, f.stats = newProcess(p), stats
	return f, nil
}

func stopFixture() {
	if sharedFixture != nil {
		sharedFixture.kill()
		_ = os.RemoveAll(sharedFixture.dir)
	}
}

func (f *fixture) dataDir() string { return filepath.Join(f.dir, "data") }

// envInt reads a number from the environment.
func envInt(name string, otherwise int64) (int64, error) {
	text := os.Getenv(name)
	if text == "" {
		return otherwise, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("environment variable %s: %w", name, err)
	}
	return n, nil
}

// smallData writes hours of a small data set that ends at end, and returns the
// data directory.
func smallData(t *testing.T, end time.Time, hours int) string {
	t.Helper()
	dir := t.TempDir()
	o := dataset.Options{Start: end.Add(-time.Duration(hours) * time.Hour).UnixMilli(), End: end.UnixMilli(), Series: 500, Seed: 2}
	_, err := dataset.WriteBlocks(context.Background(), dir, o, nil)
	require.NoError(t, err)
	return dir
}
