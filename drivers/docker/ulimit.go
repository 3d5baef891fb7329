package docker

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// ulimit is a resource limit of processes.
type ulimit struct {
	name       string
	soft, hard int64
}

// parseUlimits parses values of the form soft[:hard].
func parseUlimits(given map[string]string) (out []ulimit, err error) {
	for _, name := range slices.Sorted(maps.Keys(given)) {
		value := given[name]
		if value == "" {
			return nil, fmt.Errorf("malformed ulimit specification %s: %q, cannot be empty", name, value)
		}
		soft, hard, both := strings.Cut(value, ":")
		u := ulimit{name: name}
		if u.soft, err = strconv.ParseInt(soft, 10, 64); err != nil {
			return nil, fmt.Errorf("malformed soft ulimit %s: %q", name, value)
		}
		if u.hard = u.soft; both {
			if u.hard, err = strconv.ParseInt(hard, 10, 64); err != nil {
				return nil, fmt.Errorf("malformed hard ulimit %s: %q", name, value)
			}
		}
		out = append(out, u)
	}
	return out, nil
}
