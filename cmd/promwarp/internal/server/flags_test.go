package server

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/alecthomas/kingpin/v2"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/cmd/promwarp/internal/config"
)

// writeConfig writes text to a file of a new directory.
func writeConfig(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "promwarp.yml")
	require.NoError(t, os.WriteFile(file, []byte(text), 0o666))
	return file
}

// givenFlags gives args to a command with all settings.
func givenFlags(t *testing.T, args ...string) *config.Flags {
	t.Helper()
	f := &config.Flags{}
	app := kingpin.New("test", "")
	f.AddSource(app)
	f.AddQuery(app)
	f.AddServer(app)
	f.AddGPU(app)
	_, err := app.Parse(args)
	require.NoError(t, err)
	return f
}

func settingsOf(t *testing.T, args ...string) config.Settings {
	t.Helper()
	s, err := givenFlags(t, args...).Load()
	require.NoError(t, err)
	return s
}
