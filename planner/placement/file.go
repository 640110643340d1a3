package placement

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// fileVersion changes when constants come to mean something else.
const fileVersion = 3

// maxAge is how long constants are used until they are measured again.
const maxAge = 30 * 24 * time.Hour

// file is what a file of constants holds.
type file struct {
	Version  int       `json:"version"`
	Machine  string    `json:"machine"`
	Measured time.Time `json:"measured"`
	Constants
}

// DefaultPath is the file of constants where no other is named. It is empty where the user
// has no folder for caches.
func DefaultPath() string {
	dir, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	return filepath.Join(dir, "promwarp", "gpu-constants.json")
}

// read reads the constants of a machine. The machine's name says all that constants depend
// on. The error says why those in the file are of no use.
func read(path, machine string, now time.Time) (Constants, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return Constants{}, err
	}
	var f file
	if err := json.Unmarshal(b, &f); err != nil {
		return Constants{}, fmt.Errorf("%s is no file of constants: %w", path, err)
	}
	switch age := now.Sub(f.Measured); {
	case f.Version != fileVersion:
		err = fmt.Errorf("%s has version %d of the format, not %d", path, f.Version, fileVersion)
	case f.Machine != machine:
		err = fmt.Errorf("%s is of another machine: %s", path, f.Machine)
	case age > maxAge || age < -time.Hour:
		err = fmt.Errorf("%s was measured at %s", path, f.Measured.Format(time.RFC3339))
	case !f.sound():
		err = fmt.Errorf("%s holds times that cannot be", path)
	}
	return f.Constants, err
}

// write stores constants in a file. The file appears as a whole or not at all.
func write(path, machine string, now time.Time, c Constants) (err error) {
	b, err := json.MarshalIndent(file{fileVersion, machine, now.UTC(), c}, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	tmp, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	_, err = tmp.Write(append(b, '\n'))
	if err = errors.Join(err, tmp.Close()); err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(tmp.Name()))
	}
	return nil
}
