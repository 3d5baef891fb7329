package quota

import (
	"strconv"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/command/term"
)

// Limits returns a table of the limits of a quota and their usage. The usage is only known
// for the region that answered.
func Limits(spec *api.QuotaSpec, usage *api.QuotaUsage) string {
	rows := []string{"Region|CPU Usage|Core Usage|Memory Usage|Memory Max Usage|Alloc Usage|Variables Usage"}
	for _, l := range spec.Limits {
		limit, used := l.RegionLimit, &api.QuotaResources{}
		if limit == nil {
			limit = &api.QuotaResources{}
		}
		known := usage != nil && usage.Used[l.Key()] != nil
		if known && usage.Used[l.Key()].RegionLimit != nil {
			used = usage.Used[l.Key()].RegionLimit
		}
		of := func(used, limit *int) string {
			if !known {
				return "- / " + allowed(limit)
			}
			return strconv.Itoa(deref(used)) + " / " + allowed(limit)
		}
		rows = append(rows, term.Row(l.Region, of(used.CPU, limit.CPU), of(used.Cores, limit.Cores), of(used.MemoryMB, limit.MemoryMB),
			of(used.MemoryMaxMB, limit.MemoryMaxMB), of(used.Allocs, limit.Allocs), of(variables(used, nil), variables(limit, l.VariablesLimit))))
	}
	return term.Table(rows)
}

// variables formats the limit or the usage of variables.
func variables(r *api.QuotaResources, older *int) *int {
	if r.Storage != nil && r.Storage.VariablesMB != 0 {
		return &r.Storage.VariablesMB
	}
	return older
}

// allowed formats a limit.
func allowed(limit *int) string {
	switch n := deref(limit); {
	case n == 0:
		return "inf"
	case n < 0:
		return "0"
	default:
		return strconv.Itoa(n)
	}
}

func deref(n *int) int {
	if n == nil {
		return 0
	}
	return *n
}
