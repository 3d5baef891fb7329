package fingerprint

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// maxCore limits core numbers, so that a typing error does not create a huge list.
const maxCore = 8191

// ParseCPUSet parses the kernel's cpu list format, such as "0-3,7". An empty list is valid.
func ParseCPUSet(list string) ([]uint16, error) {
	var ids []uint16
	for part := range strings.SplitSeq(list, ",") {
		part = strings.TrimSpace(part)
		if part == "" {
			continue
		}
		first, last, isRange := strings.Cut(part, "-")
		if !isRange {
			last = first
		}
		lo, err := strconv.ParseUint(strings.TrimSpace(first), 10, 16)
		if err != nil {
			return nil, fmt.Errorf("core list %q: %q is not a number", list, first)
		}
		hi, err := strconv.ParseUint(strings.TrimSpace(last), 10, 16)
		if err != nil || hi < lo || hi > maxCore {
			return nil, fmt.Errorf("core list %q: bad range %q", list, part)
		}
		for id := lo; id <= hi; id++ {
			ids = append(ids, uint16(id))
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids), nil
}

// cpuset formats a list in the kernel's format.
func cpuset(ids []uint16) string {
	var parts []string
	for i := 0; i < len(ids); {
		j := i
		for j+1 < len(ids) && ids[j+1] == ids[j]+1 {
			j++
		}
		if i == j {
			parts = append(parts, strconv.Itoa(int(ids[i])))
		} else {
			parts = append(parts, fmt.Sprintf("%d-%d", ids[i], ids[j]))
		}
		i = j + 1
	}
	return strings.Join(parts, ",")
}

// has reports whether a sorted list contains id.
func has(ids []uint16, id uint16) bool {
	_, found := slices.BinarySearch(ids, id)
	return found
}
