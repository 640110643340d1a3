package queries

import (
	"fmt"
	"strings"
)

// Rule is a recording or alerting rule, whose expression is evaluated at one time.
type Rule struct {
	Form string // there is a rule of the form for each service
	Expr string
}

// slothServices have an objective as Sloth generates it, of 12 rules; pyrraServices, which are
// numbered after them, one as Pyrra does, of 10.
const slothServices, pyrraServices = 10, 8

var (
	slothWindows = []string{"5m", "30m", "1h", "2h", "6h", "1d", "3d"}
	pyrraWindows = []string{"5m", "30m", "1h", "2h", "6h", "1d", "4d"}

	objectiveFamilies = madeForObjectives(fmt.Sprintf("svc-{%d}", slothServices+pyrraServices))
)

// madeForObjectives are 50 series of requests an instance, which is a pod of a service, and what
// rules record.
func madeForObjectives(service string) []string {
	sloth := fmt.Sprintf(" sloth_id=%s-requests sloth_service=%s sloth_slo=requests", service, service)
	all := []string{
		"counter requests_total 40 job=api service=" + service + " pod=pod-{} method=GET*0.8|POST*0.2 handler=/items*0.5|/orders*0.2|/login*0.05|/search*0.15|/static*0.1" +
			" code=200*0.95|201*0.03|404*0.01|500*0.006|503*0.004",
		"fixed slo:error_budget:ratio 0.001" + sloth, "gauge slo:period_burn_rate:ratio 0.5" + sloth,
	}
	for i, w := range slothWindows {
		all = append(all, "gauge slo:sli_error:ratio_rate"+w+" 0.01"+sloth+" sloth_window="+w,
			"gauge requests:burnrate"+pyrraWindows[i]+" 0.01 job=api slo=requests service="+service)
	}
	return all
}

// Objectives are 200 rules as Sloth and Pyrra generate them, those of a form after each other.
func Objectives() (all []Rule) {
	add := func(form, expr string, from, services int) {
		for i := range services {
			service := fmt.Sprintf("svc-%d", from+i)
			sloth := fmt.Sprintf(`sloth_id="%s-requests",sloth_service="%s",sloth_slo="requests"`, service, service)
			all = append(all, Rule{form, strings.NewReplacer("$s", `job="api",service="`+service+`"`, "$l", sloth).Replace(expr)})
		}
	}
	sloth := func(form, expr string) { add("Sloth "+form, expr, 0, slothServices) }
	pyrra := func(form, expr string) { add("Pyrra "+form, expr, slothServices, pyrraServices) }
	errors := func(w string) string {
		return strings.ReplaceAll(`sum by (service) (rate(requests_total{$s,code=~"5.."}[$w])) / sum by (service) (rate(requests_total{$s}[$w]))`, "$w", w)
	}
	for i, w := range slothWindows {
		sloth("errors "+w, errors(w))
		pyrra("burn rate "+pyrraWindows[i], errors(pyrraWindows[i]))
	}
	burns := func(times, short, long string) string {
		of := "max(slo:sli_error:ratio_rate%s{$l} > (%s * 0.001)) without (sloth_window)"
		return fmt.Sprintf("("+of+" and "+of+")", short, times, long, times)
	}
	sloth("errors 30d", "sum_over_time(slo:sli_error:ratio_rate5m{$l}[30d]) / ignoring (sloth_window) count_over_time(slo:sli_error:ratio_rate5m{$l}[30d])")
	sloth("burn rate", "slo:sli_error:ratio_rate5m{$l} / on (sloth_id, sloth_slo, sloth_service) group_left () slo:error_budget:ratio{$l}")
	sloth("budget left", "1 - slo:period_burn_rate:ratio{$l}")
	sloth("page", burns("14.4", "5m", "1h")+" or "+burns("6", "30m", "6h"))
	sloth("ticket", burns("3", "2h", "1d")+" or "+burns("1", "6h", "3d"))
	pyrra("increase 30d", "sum by (service, code) (increase(requests_total{$s}[30d]))")
	pyrra("fast burn", `requests:burnrate5m{$s,slo="requests"} > (14 * (1-0.999)) and requests:burnrate1h{$s,slo="requests"} > (14 * (1-0.999))`)
	pyrra("slow burn", `requests:burnrate6h{$s,slo="requests"} > (1 * (1-0.999)) and requests:burnrate4d{$s,slo="requests"} > (1 * (1-0.999))`)
	return all
}
