package ptx_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/gpuexec/cuda"
	"github.com/promwarp/promwarp/gpuexec/cuda/cudatest"
	"github.com/promwarp/promwarp/gpuexec/launch"
	kernels "github.com/promwarp/promwarp/kernels/ptx"
	"github.com/promwarp/promwarp/resample/custom"
	"github.com/promwarp/promwarp/resample/custom/customtest"
	"github.com/promwarp/promwarp/resample/custom/ptx"
)

var rounds = flag.Int("ptx.rounds", 100, "random programs that TestRandom loads")

// portable compiles a source, which must not call exp, log or pow.
func portable(t testing.TB, s custom.Source) *custom.Portable {
	d, err := s.Compile()
	require.NoError(t, err)
	p, reason := custom.PortableOf(d)
	require.Empty(t, reason)
	return p
}

func Example() {
	s, _ := custom.Read([]byte("{name: squares, state: {s: 0}, add: {s: s + v*v}, result: s}"))
	d, err := s.Compile()
	if err != nil {
		fmt.Println(err)
		return
	}
	p, _ := custom.PortableOf(d)
	kernel := "\n.visible .entry k()\n{\n\tcustom.begin;\n\tcustom.add %fd1, %rd1, %fd2, %rd2, %r1;\n\tret;\n}\n"
	_, text, _ := strings.Cut(string(ptx.Translate([]byte(kernel), p)), "%co3_<1>;\n")
	fmt.Print(text)
	// Output:
	//	{ // custom.begin
	//	mov.f64 %cs0, 0d0000000000000000;
	//	}
	//	{ // custom.add %fd1, %rd1, %fd2, %rd2, %r1
	//	.reg .f64 %cx<4>;
	//	.reg .pred %cp<4>;
	//	.reg .f64 %cy;
	//	.reg .b64 %cb<2>;
	//	.reg .pred %cq<2>;
	//	mov.f64 %cx0, %cs0;
	//	mov.f64 %cx1, %fd1;
	//	mul.rn.f64 %cx2, %cx1, %cx1;
	//	add.rn.f64 %cx3, %cx0, %cx2;
	//	mov.f64 %cs0, %cx3;
	//	}
	//	ret;
	//}
}

// load requires that a device loads the kernels of a program: that its driver compiles them, or that
// the host driver finds each register declared, with the types that its instructions take.
func load(t testing.TB, dev *cuda.Device, p *custom.Portable, about any) {
	programs := launch.Programs{Device: dev}
	of := launch.Custom
	if p.Merge == nil {
		of = []launch.Kernel{"custom_runs"}
	}
	_, err := programs.Hold(&launch.Program{
		Kernels: of, Translate: func(k []byte) []byte { return ptx.Translate(k, p) },
	})
	require.NoError(t, err, "%+v", about)
	require.NoError(t, dev.Do(programs.Unload))
}

// TestRandom loads random programs, and the largest that there can be.
func TestRandom(t *testing.T) {
	dev := cudatest.Device(t)
	for seed := range uint64(*rounds) {
		s := custom.Source(customtest.Random(rand.New(rand.NewPCG(seed, 11)), false))
		load(t, dev, portable(t, s), s)
	}
	large := custom.Source{Name: "large", State: map[string]string{}, Add: map[string]string{}, Merge: map[string]string{}, Result: "f0"}
	for i := range custom.MaxFields {
		f := fmt.Sprint("f", i)
		large.State[f], large.Merge[f] = "0", fmt.Sprintf("a.%s + b.%s * a.f0", f, f)
		large.Add[f] = fmt.Sprintf("first ? v : %s + max(v / %d, sqrt(prev_v), t - prev_t) * f%d - floor(%s) / v * f0", f, i+2, (i+1)%custom.MaxFields, f)
	}
	p, began := portable(t, large), time.Now()
	require.Greater(t, p.Work(), 150)
	load(t, dev, p, large)
	t.Logf("all kernels of %d instructions a sample: %v", p.Work(), time.Since(began))
}

// TestUntranslated: PTX that has places still does not load.
func TestUntranslated(t *testing.T) {
	for _, k := range launch.Custom {
		_, err := launch.Load(cudatest.Device(t), nil, k)
		require.ErrorContains(t, err, "CUDA_ERROR_INVALID_PTX", k)
	}
}

// FuzzTranslate loads whatever compiles.
func FuzzTranslate(f *testing.F) {
	for seed := range uint64(20) {
		s := customtest.Random(rand.New(rand.NewPCG(seed, 12)), false)
		f.Add(s.State["f0"], s.Add["f0"], s.Merge["f0"], s.Result)
	}
	f.Add("true", "f0 ? v < 1 : f0 == (t < 3)", "a.f0 != b.f0", "f0 ? start : end")
	dev := cudatest.Device(f)
	f.Fuzz(func(t *testing.T, state, add, merge, result string) {
		s := custom.Source{Name: "f", State: map[string]string{"f0": state}, Add: map[string]string{"f0": add}, Result: result}
		if merge != "" {
			s.Merge = map[string]string{"f0": merge}
		}
		d, err := s.Compile()
		if err != nil {
			return
		}
		if p, _ := custom.PortableOf(d); p != nil {
			load(t, dev, p, s)
		}
	})
}

// TestPlaces: a kernel of which a program knows no place cannot be translated, nor one that merges
// with a program that does not.
func TestPlaces(t *testing.T) {
	p := portable(t, custom.Source{Name: "f", State: map[string]string{"s": "0"}, Add: map[string]string{"s": "s + v"}, Result: "s"})
	require.PanicsWithValue(t, "ptx: a kernel has a place that is not known: end", func() {
		ptx.Translate([]byte("\n.visible .entry k()\n{\n\tcustom.end;\n}\n"), p)
	})
	require.PanicsWithValue(t, "ptx: a kernel merges states, which the program does not", func() {
		ptx.Translate(kernels.Of("custom_merge"), p)
	})
}
