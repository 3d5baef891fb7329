package hostuser

import (
	"fmt"
	"strconv"
	"strings"
)

// Ranges are inclusive ranges of uids or gids.
type Ranges [][2]uint32

// Has reports whether a range contains the ID.
func (r Ranges) Has(id uint32) bool {
	for _, b := range r {
		if b[0] <= id && id <= b[1] {
			return true
		}
	}
	return false
}

// ParseRanges parses a list such as "0,10-20".
func ParseRanges(s string) (Ranges, error) {
	if strings.TrimSpace(s) == "" {
		return nil, nil
	}
	var out Ranges
	for _, part := range strings.Split(s, ",") {
		lo, hi, isRange := strings.Cut(strings.TrimSpace(part), "-")
		if !isRange {
			hi = lo
		}
		a, err := strconv.ParseUint(lo, 10, 32)
		if err != nil {
			return nil, fmt.Errorf("%q is not an ID or a range of IDs", part)
		}
		b, err := strconv.ParseUint(hi, 10, 32)
		if err != nil || b < a {
			return nil, fmt.Errorf("%q is not an ID or a range of IDs", part)
		}
		out = append(out, [2]uint32{uint32(a), uint32(b)})
	}
	return out, nil
}
