package comparison

import (
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/promwarp/promwarp/cmd/promwarp/internal/render"
	"github.com/promwarp/promwarp/cmd/promwarp/internal/terminal"
)

// Report prints rows as a table of so many columns, what differs, and a summary.
func Report(w io.Writer, rows []Row, width int, style terminal.Style) error {
	cells := [][]string{{"PROMETHEUS", "FIRST", "REPEATED", "SPEED-UP", "ANSWER", "QUERY"}}
	for _, r := range rows {
		cells = append(cells, []string{
			ms(r.Prometheus), ms(r.First), ms(r.Repeated), times(r.Prometheus, r.First) + ", " + times(r.Prometheus, r.Repeated),
			string(r.Verdict), strings.Join(strings.Fields(r.Query), " "),
		})
	}
	if err := render.Table(w, cells, len(cells[0])-1, width); err != nil {
		return err
	}
	for _, r := range rows {
		switch {
		case r.Verdict == Different:
			fmt.Fprintf(w, "\n%s: %s\n  %s\n", style.Bad(string(r.Verdict)), r.Query, r.Detail)
		case r.Detail != "":
			fmt.Fprintf(w, "\n%s: %s\n  %s\n", style.Note(string(r.Verdict)), r.Query, r.Detail)
		}
	}
	return nil
}

// Summary prints how many answers are the same, and the means of the speed-ups.
func Summary(w io.Writer, rows []Row, style terminal.Style) {
	count := map[Verdict]int{}
	first, repeated, n := 0.0, 0.0, 0
	for _, r := range rows {
		count[r.Verdict]++
		if r.Verdict == Same && r.Repeated > 0 && r.First > 0 && r.Prometheus > 0 {
			first += math.Log(r.Prometheus / r.First)
			repeated += math.Log(r.Prometheus / r.Repeated)
			n++
		}
	}
	text := fmt.Sprintf("%d of %d answers are the same to the bit", count[Same], len(rows))
	if count[Different] > 0 {
		text = style.Bad(fmt.Sprintf("%s, %d differ", text, count[Different]))
	} else if count[Same] > 0 {
		text = style.Good(text)
	}
	fmt.Fprintf(w, "\n%s", text)
	if count[NotCompared] > 0 {
		fmt.Fprintf(w, ", %d could not be compared", count[NotCompared])
	}
	fmt.Fprintln(w, ".")
	if n > 0 {
		fmt.Fprintf(w, "promwarp is %.1f× as fast at first and %.1f× when asked again (geometric means).\n",
			math.Exp(first/float64(n)), math.Exp(repeated/float64(n)))
	}
}

func ms(f float64) string {
	if f == 0 {
		return "-"
	}
	return fmt.Sprintf("%.1f", f)
}

func times(a, b float64) string {
	if a == 0 || b == 0 {
		return "-"
	}
	return fmt.Sprintf("%.1f×", a/b)
}
