package server

import (
	"testing"

	"github.com/alecthomas/kingpin/v2"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/cmd/promwarp/internal/config"
)

// givenFlags gives args to a command with all settings.
func givenFlags(t *testing.T, args ...string) *config.Flags {
	t.Helper()
	f := &config.Flags{}
	app := kingpin.New("test", "")
	f.Add(app, true)
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
