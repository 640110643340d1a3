package queries

import (
	"fmt"
	"strings"
)

// slothServices have an objective as Sloth generates it, of 12 rules; pyrraServices, which are
// numbered after them, one as Pyrra does, of 10.
const slothServices, pyrraServices = 10, 8

var (
	slothWindows      = []string{"5m", "30m", "1h", "2h", "6h", "1d", "3d"}
	pyrraWindows      = []string{"5m", "30m", "1h", "2h", "6h", "1d", "4d"}
	objectiveFamilies = madeForObjectives(fmt.Sprintf("svc-{%d}", slothServices+pyrraServices))
)

// madeForObjectives are 50 series of requests an instance, which is a pod of a service, and what
// rules record.
func madeForObjectives(service string) (all []string) {
	sloth := fmt.Sprintf(" sloth_id=%s-requests sloth_service=%s sloth_slo=requests", service, service)
	for i, w := range slothWindows {
		all = append(all, "gauge slo:sli_error:ratio_rate"+w+" 0.01"+sloth+" sloth_window="+w,
			"gauge requests:burnrate"+pyrraWindows[i]+" 0.01 job=api slo=requests service="+service)
	}
	return append(all, "fixed slo:error_budget:ratio 0.001"+sloth, "gauge slo:period_burn_rate:ratio 0.5"+sloth,
		"counter requests_total 40 job=api service="+service+" pod=pod-{} method=GET*0.8|POST*0.2 handler=/items*0.5|/orders*0.2|/login*0.05|/search*0.15|/static*0.1"+
			" code=200*0.95|201*0.03|404*0.01|500*0.006|503*0.004")
}

// Objectives are 200 rules as Sloth and Pyrra generate them: expressions that are evaluated at one time. Those
// of a name are of one form, one for each service.
func Objectives() (all []Query) {
	add := func(form, expr string, replace ...string) {
		for i := range slothServices + pyrraServices {
			if strings.HasPrefix(form, "Sloth") != (i < slothServices) {
				continue
			}
			all = append(all, Query{Name: form, Expr: strings.NewReplacer(append(replace, "$s", fmt.Sprintf(`job="api",service="svc-%d"`, i),
				"$l", fmt.Sprintf(`sloth_id="svc-%d-requests",sloth_service="svc-%[1]d",sloth_slo="requests"`, i))...).Replace(expr)})
		}
	}
	const ratio = `sum by (service) (rate(requests_total{$s,code=~"5.."}[$w])) / sum by (service) (rate(requests_total{$s}[$w]))`
	for i, w := range slothWindows {
		add("Sloth errors "+w, ratio, "$w", w)
		add("Pyrra burn rate "+pyrraWindows[i], ratio, "$w", pyrraWindows[i])
	}
	burns := func(times, short, long string) string {
		const of = "max(slo:sli_error:ratio_rate%s{$l} > (%s * 0.001)) without (sloth_window)"
		return fmt.Sprintf("("+of+" and "+of+")", short, times, long, times)
	}
	add("Sloth errors 30d", "sum_over_time(slo:sli_error:ratio_rate5m{$l}[30d]) / ignoring (sloth_window) count_over_time(slo:sli_error:ratio_rate5m{$l}[30d])")
	add("Sloth burn rate", "slo:sli_error:ratio_rate5m{$l} / on (sloth_id, sloth_slo, sloth_service) group_left () slo:error_budget:ratio{$l}")
	add("Sloth budget left", "1 - slo:period_burn_rate:ratio{$l}")
	add("Sloth page", burns("14.4", "5m", "1h")+" or "+burns("6", "30m", "6h"))
	add("Sloth ticket", burns("3", "2h", "1d")+" or "+burns("1", "6h", "3d"))
	add("Pyrra increase 30d", "sum by (service, code) (increase(requests_total{$s}[30d]))")
	add("Pyrra fast burn", `requests:burnrate5m{$s,slo="requests"} > (14 * (1-0.999)) and requests:burnrate1h{$s,slo="requests"} > (14 * (1-0.999))`)
	add("Pyrra slow burn", `requests:burnrate6h{$s,slo="requests"} > (1 * (1-0.999)) and requests:burnrate4d{$s,slo="requests"} > (1 * (1-0.999))`)
	return all
}
