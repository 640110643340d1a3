// Package licences checks that whatever is linked into promwarp may be given on with it.
package licences

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/licensecheck"
	"github.com/stretchr/testify/require"
)

// allowed are the licences, by their SPDX identifiers, that code in promwarp may have.
var allowed = []string{"Apache-2.0", "MIT", "BSD-2-Clause", "BSD-3-Clause", "ISC", "MPL-2.0"}

// enough is how much of a licence's file, in percent, must be the text of known licences. What is
// left are names, years and headings.
const enough = 60

// licenceFile matches the names of files that hold licences.
var licenceFile = regexp.MustCompile(`(?i)^(un)?licen[sc]e|^copying`)

// dependency is a package that is linked into promwarp.
type dependency struct {
	Dir, ImportPath string
	Standard        bool
	Module          *struct {
		Path, Version, Dir string
		Main               bool
	}
}

// dependencies lists what the program is made of.
func dependencies() (all []dependency, err error) {
	cmd := exec.Command("go", "list", "-deps", "-json=Dir,ImportPath,Standard,Module", "./cmd/promwarp")
	cmd.Dir = "../.."
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("list what promwarp is made of: %w", err)
	}
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var one dependency
		if err := d.Decode(&one); errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil {
			return nil, err
		}
		if !one.Standard && one.Module != nil && !one.Module.Main {
			all = append(all, one)
		}
	}
}

// files returns the licence files that hold for a package: those in its folder and in the
// folders above, to the module's.
func files(module, dir string) (found []string, err error) {
	for ; strings.HasPrefix(dir, module); dir = filepath.Dir(dir) {
		entries, err := os.ReadDir(dir)
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			ext := filepath.Ext(e.Name())
			if !e.IsDir() && licenceFile.MatchString(e.Name()) && ext != ".go" {
				found = append(found, filepath.Join(dir, e.Name()))
			}
		}
	}
	return found, nil
}

// judge says which licences a text is and what is wrong with it.
func judge(text []byte) (ids []string, err error) {
	c := licensecheck.Scan(text)
	found := map[string]bool{}
	for _, m := range c.Match {
		if !m.IsURL {
			found[m.ID] = true
		}
	}
	ids = slices.Sorted(maps.Keys(found))
	switch {
	case len(ids) == 0:
		return nil, errors.New("no known licence")
	case c.Percent < enough:
		return ids, fmt.Errorf("only %.0f %% of it is known: %s", c.Percent, strings.Join(ids, ", "))
	}
	for _, id := range ids {
		if !slices.Contains(allowed, id) {
			return ids, fmt.Errorf("its licence is %s, which is none of %s", id, strings.Join(allowed, ", "))
		}
	}
	return ids, nil
}

// Whatever is linked into promwarp has a licence that is allowed.
func TestLicences(t *testing.T) {
	all, err := dependencies()
	require.NoError(t, err)
	require.Greater(t, len(all), 100, "the list is not whole")
	checked, modules := map[string]bool{}, map[string]bool{}
	counts := map[string]int{}
	for _, d := range all {
		found, err := files(d.Module.Dir, d.Dir)
		require.NoError(t, err)
		if len(found) == 0 && !checked[d.Module.Path] {
			t.Errorf("%s has no licence file", d.ImportPath)
		}
		modules[d.Module.Path], checked[d.Module.Path] = true, true
		for _, file := range found {
			if checked[file] {
				continue
			}
			checked[file] = true
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			ids, err := judge(text)
			if err != nil {
				t.Errorf("%s %s: %s: %v", d.Module.Path, d.Module.Version, filepath.Base(file), err)
			}
			counts[strings.Join(ids, " and ")]++
		}
	}
	t.Logf("%d modules; licence files: %v", len(modules), counts)
}

func TestJudge(t *testing.T) {
	mit := `Permission is hereby granted, free of charge, to any person obtaining a copy of this software and associated documentation files (the "Software"), to deal in the Software without restriction, including without limitation the rights to use, copy, modify, merge, publish, distribute, sublicense, and/or sell copies of the Software, and to permit persons to whom the Software is furnished to do so, subject to the following conditions:
The above copyright notice and this permission notice shall be included in all copies or substantial portions of the Software.
THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR IMPLIED, INCLUDING BUT NOT LIMITED TO THE WARRANTIES OF MERCHANTABILITY, FITNESS FOR A PARTICULAR PURPOSE AND NONINFRINGEMENT. IN NO EVENT SHALL THE AUTHORS OR COPYRIGHT HOLDERS BE LIABLE FOR ANY CLAIM, DAMAGES OR OTHER LIABILITY, WHETHER IN AN ACTION OF CONTRACT, TORT OR OTHERWISE, ARISING FROM, OUT OF OR IN CONNECTION WITH THE SOFTWARE OR THE USE OR OTHER DEALINGS IN THE SOFTWARE.`
	ids, err := judge([]byte("MIT License\n\n" + mit))
	require.NoError(t, err)
	require.Equal(t, []string{"MIT"}, ids)

	_, err = judge([]byte(mit + strings.Repeat("\nWho uses this in a server must publish the server, too.", 40)))
	require.ErrorContains(t, err, "only")
	_, err = judge([]byte("All rights reserved."))
	require.ErrorContains(t, err, "no known licence")

	gpl, err := os.ReadFile("/usr/share/common-licenses/GPL-3")
	if err != nil {
		t.Skipf("NOT TESTED: there is no text of a licence that is not allowed: %v", err)
	}
	_, err = judge(gpl)
	require.ErrorContains(t, err, "GPL-3.0")
}
