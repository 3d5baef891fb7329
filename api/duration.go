package api

import (
	"fmt"
	"time"
)

// durationText formats a duration for JSON. Zero is "".
func durationText(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return d.String()
}

// durationOf parses a decoded JSON value as a duration. Null is 0.
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
	return 0, fmt.Errorf("invalid duration %v: use a string such as \"10s\"", v)
}
