package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// contexts matches expressions that are contexts, by what contexts are called.
var contexts = regexp.MustCompile(`(?i)(^|\.)([a-z]*ctx|(\w*context|background|todo)(\(\))?)$`)

// TestContexts: contexts carry cancelling, deadlines and traces. What says something of a request is
// an argument, or a field of what is made for the request.
func TestContexts(t *testing.T) {
	looked := 0
	walk(t, func(file string) {
		top, _, _ := strings.Cut(file, "/")
		if !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go") || slices.Contains(ownModules, top) || strings.HasPrefix(file, "internal/tracing/") {
			return
		}
		looked++
		files := token.NewFileSet()
		f, err := parser.ParseFile(files, filepath.Join(root, file), nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		ast.Inspect(f, func(n ast.Node) bool {
			if call, ok := n.(*ast.CallExpr); ok && (strings.HasSuffix(types.ExprString(call.Fun), "context.WithValue") || readsContext(call)) {
				t.Errorf("%s: a context carries an argument: give it as one", files.Position(n.Pos()))
			}
			return true
		})
	})
	require.Greater(t, looked, 100)
}

// readsContext reports whether a call is of a context's Value.
func readsContext(call *ast.CallExpr) bool {
	of, ok := call.Fun.(*ast.SelectorExpr)
	return ok && of.Sel.Name == "Value" && len(call.Args) == 1 && contexts.MatchString(types.ExprString(of.X))
}

func TestReadsContext(t *testing.T) {
	for text, want := range map[string]bool{
		"ctx.Value(key{})": true, "q.ctx.Value(key{})": true, "gctx.Value(k)": true, "a.Ctx.Value(k)": true, "r.Context().Value(k)": true, "r.Context.Value(k)": true,
		"parentContext.Value(k)": true, "context.Background().Value(k)": true,
		"in.Value(k)": false, "of.Value()": false, "w.packed.Value(w.hi[k] - 1)": false, "ctx.Err()": false, "ctx.Value()": false, "Value(k)": false,
	} {
		e, err := parser.ParseExpr(text)
		require.NoError(t, err)
		require.Equal(t, want, readsContext(e.(*ast.CallExpr)), text)
	}
}
