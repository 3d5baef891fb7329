package config

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Ulimit is a resource limit of processes.
type Ulimit struct {
	Name       string
	Soft, Hard int64
}

// parseUlimits parses values of the form soft[:hard].
func parseUlimits(given map[string]string) (out []Ulimit, err error) {
	for _, name := range slices.Sorted(maps.Keys(given)) {
		value := given[name]
		if value == "" {
			return nil, fmt.Errorf("malformed ulimit specification %s: %q, cannot be empty", name, value)
		}
		soft, hard, both := strings.Cut(value, ":")
		u := Ulimit{Name: name}
		if u.Soft, err = strconv.ParseInt(soft, 10, 64); err != nil {
			return nil, fmt.Errorf("malformed soft ulimit %s: %q", name, value)
		}
		if u.Hard = u.Soft; both {
			if u.Hard, err = strconv.ParseInt(hard, 10, 64); err != nil {
				return nil, fmt.Errorf("malformed hard ulimit %s: %q", name, value)
			}
		}
		out = append(out, u)
	}
	return out, nil
}
