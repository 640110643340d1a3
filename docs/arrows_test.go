package docs

import (
	"bytes"
	"encoding/json"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"maps"
	mathbits "math/bits"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// mostUp is the largest share of a room's arrows that run back up, in percent.
const mostUp = 10

// room is what go list says of a package.
type room struct {
	ImportPath, Dir, Export string
	GoFiles                 []string
	DepOnly                 bool
}

// roomsOf is what go list, with args, says of packages, each after what it imports.
func roomsOf(t *testing.T, env []string, args ...string) (all []room) {
	list := exec.Command("go", append([]string{"list", "-json=ImportPath,Dir,Export,GoFiles,DepOnly"}, args...)...)
	list.Dir, list.Env = root, env
	out, err := list.Output()
	require.NoError(t, err)
	for from := json.NewDecoder(bytes.NewReader(out)); from.More(); {
		var r room
		require.NoError(t, from.Decode(&r))
		all = append(all, r)
	}
	return all
}

// TestArrows bounds the calls in a room that run back up. An arrow is a pair of functions in two files
// of one package of which the first names the second, to call it or to hand it on. The files are put
// into the order in which the fewest arrows run from a file to one before it: these run back up, and a
// reader who takes the files in that order meets what is called after what calls it, but for them.
func TestArrows(t *testing.T) {
	exports, ours := map[string]string{}, []room{}
	for _, r := range roomsOf(t, os.Environ(), "-export", "-deps", "./...") {
		if exports[r.ImportPath] = r.Export; !r.DepOnly {
			ours = append(ours, r)
		}
	}
	require.Greater(t, len(ours), 20)
	set := token.NewFileSet()
	imports := importer.ForCompiler(set, "gc", func(name string) (io.ReadCloser, error) { return os.Open(exports[name]) })
	for _, r := range ours {
		arrows := arrowsOf(t, r, set, imports)
		between, names := map[[2]string]int{}, map[string]bool{}
		for a := range arrows {
			from, to := set.Position(a[0].Pos()).Filename, set.Position(a[1].Pos()).Filename
			between[[2]string{from, to}]++
			names[from], names[to] = true, true
		}
		order := fewestUp(slices.Sorted(maps.Keys(names)), between)
		var up []string
		for a := range arrows {
			from, to := set.Position(a[0].Pos()).Filename, set.Position(a[1].Pos()).Filename
			if slices.Index(order, from) > slices.Index(order, to) {
				up = append(up, filepath.Base(from)+" "+a[0].Name()+" -> "+filepath.Base(to)+" "+a[1].Name())
			}
		}
		slices.Sort(up)
		name := strings.TrimPrefix(r.ImportPath, module)
		t.Logf("%s: %d of %d arrows run back up", name, len(up), len(arrows))
		assert(t, len(up)*100 <= mostUp*len(arrows), "%s: %d of %d arrows run back up, of at most %d %%:\n\t%s",
			name, len(up), len(arrows), mostUp, strings.Join(up, "\n\t"))
	}
}

// arrowsOf returns the arrows between the files of a room.
func arrowsOf(t *testing.T, r room, set *token.FileSet, imports types.Importer) map[[2]*types.Func]bool {
	var files []*ast.File
	for _, name := range r.GoFiles {
		f, err := parser.ParseFile(set, filepath.Join(r.Dir, name), nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		files = append(files, f)
	}
	info := types.Info{Uses: map[*ast.Ident]types.Object{}, Defs: map[*ast.Ident]types.Object{}}
	checked, err := (&types.Config{Importer: imports}).Check(r.ImportPath, set, files, &info)
	require.NoError(t, err)
	arrows := map[[2]*types.Func]bool{}
	for _, f := range files {
		for _, d := range f.Decls {
			caller, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			from := info.Defs[caller.Name].(*types.Func)
			ast.Inspect(caller, func(n ast.Node) bool {
				name, _ := n.(*ast.Ident)
				to, ok := info.Uses[name].(*types.Func)
				if ok && to.Pkg() == checked && set.File(to.Pos()) != set.File(from.Pos()) {
					arrows[[2]*types.Func{from, to.Origin()}] = true
				}
				return true
			})
		}
	}
	return arrows
}

// fewestUp returns the order of files in which the fewest arrows run up. It is found from sets of files
// to larger ones: best of a set is that of the order in which its files come first.
func fewestUp(files []string, arrows map[[2]string]int) []string {
	best, last := make([]int, 1<<len(files)), make([]int, 1<<len(files))
	for s := 1; s < len(best); s++ {
		best[s] = 1 << 30
		for rest := s; rest != 0; rest &= rest - 1 {
			k := mathbits.TrailingZeros(uint(rest))
			n := best[s&^(1<<k)]
			for before := s &^ (1 << k); before != 0; before &= before - 1 {
				n += arrows[[2]string{files[k], files[mathbits.TrailingZeros(uint(before))]}]
			}
			if n < best[s] {
				best[s], last[s] = n, k
			}
		}
	}
	var order []string
	for s := len(best) - 1; s > 0; s &^= 1 << last[s] {
		order = append(order, files[last[s]])
	}
	slices.Reverse(order)
	return order
}
