package api

import (
	"fmt"
	"time"
)

// durationText is a duration in JSON, "" for none.
func durationText(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return d.String()
}

// durationOf reads a duration from JSON; null is 0.
func durationOf(v any) (time.Duration, error) {
	switch v := v.(type) {
	case nil:
		return 0, nil
	case float64:
		return time.Duration(v), nil
	case string:
		d, err := time.ParseDuration(v)
		if v == "" {
			return 0, nil
		}
		return d, err
	}
	return 0, fmt.Errorf("a duration such as \"10s\" is expected, not %v", v)
}
