package docs

import (
	"go/ast"
	goparser "go/parser"
	"go/token"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/promql/parser"
	"github.com/stretchr/testify/require"

	resampled "github.com/promwarp/promwarp/resample/aggregate"
)

// definers are the rooms whose variables are definitions of functions.
var definers = []string{"cpuexec/window", "cpuexec/aggregate", "cpuexec/vector", "cpuexec/histogram", "resample/aggregate"}

// namedElsewhere are the words that files, or all files of a room, may have although functions have them
// as names, and what they mean there.
var namedElsewhere = []struct{ place, words, meaning string }{
	{"api", "start end step time timestamp info range", "parameters of Prometheus's API, columns, fields of a printed query"},
	{"cmd", "start end step time var group scalar vector", "the same, variables of dashboards, groups of rules, types of results"},
	{"resample", "start end", "fields of requests"},
	{"resample/custom", "first start end min max abs sqrt floor ceil exp", "a language of its own: its functions and inputs"},
	{"cache", "first", "a field of a disk's index"},
	{"planner/planner.go", "absent sort info scalar", "kinds of nodes, as /explain shows them"},
	{"planner/placement/measure.go", "rate sum", "the query that is measured"},
	{"gpuexec/windows.go", "rate", "the end of the names of two kernels"},
	{"kernels/build/kernel.go", "group", "a folder"},
	{"selection/replicas/penalty.go", "increase rate irate resets", "what a Querier of Thanos takes for readers of counters"},
	{"remoteread/stores/aggregates.go", "rate irate increase delta idelta deriv predict_linear double_exponential_smoothing min max count sum avg", "what a Querier of Thanos reads of a lower resolution"},
	{"remoteread/upstream/read.go", "mad_over_time", "whether a Prometheus lists it says how that is set"},
}

// TestNamesOfFunctions: what a function is stands in its definition. Nothing else in the product has the
// name of one as text, so nothing tells functions apart by comparing names, or has a list of them.
func TestNamesOfFunctions(t *testing.T) {
	names := map[string]bool{}
	for name := range parser.Functions {
		names[name] = true
	}
	for op, name := range parser.ItemTypeStr {
		names[name] = names[name] || op.IsAggregator()
	}
	for _, d := range resampled.Definitions {
		for _, name := range append([]string{d.Name}, d.Aliases...) {
			names[name] = true
		}
	}
	require.True(t, names["rate"] && names["topk"] && names["twa"])
	walk(t, func(file string) {
		top, _, _ := strings.Cut(file, "/")
		if !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go") || slices.Contains(ownModules, top) {
			return
		}
		var allowed []string
		for _, p := range namedElsewhere {
			if file == p.place || strings.HasPrefix(file, p.place+"/") {
				allowed = append(allowed, strings.Fields(p.words)...)
			}
		}
		set := token.NewFileSet()
		f, err := goparser.ParseFile(set, filepath.Join(root, file), nil, 0)
		require.NoError(t, err)
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.ImportSpec:
				return false
			case *ast.GenDecl: // of variables, which definitions are
				return n.Tok != token.VAR || !slices.Contains(definers, path.Dir(file))
			}
			if text, ok := n.(*ast.BasicLit); ok && text.Kind == token.STRING {
				name, err := strconv.Unquote(text.Value)
				require.NoError(t, err)
				assert(t, !names[name] || slices.Contains(allowed, name), "%s: the function %s is named outside of its definition: "+
					"make what is asked of it a field of the definition", set.Position(text.Pos()), name)
			}
			return true
		})
	})
}
