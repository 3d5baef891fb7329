package drivers

import (
	"fmt"
	"maps"
	"slices"
)

// Limits of the names in a config block: of its arguments and blocks, and of the keys of its maps. hcldec compares
// each unknown name with all known ones, which takes time in proportion to the length of the name.
const (
	maxName  = 512     // bytes of one name
	maxNames = 1 << 16 // bytes of all names of a block
)

// BoundNames returns an error if a name in a config block is too long, at any level, or if all its names together are.
// field is the argument or block with the long name, shortened, or "" if no single name is too long.
func BoundNames(block map[string]any) (field string, err error) {
	total := 0
	for _, field := range slices.Sorted(maps.Keys(block)) {
		longest := max(len(field), measureNames(block[field], &total))
		total += len(field)
		if longest <= maxName {
			continue
		}
		if len(field) > maxName {
			field = fmt.Sprintf("%.32s...", field)
		}
		return field, fmt.Errorf("a name has %d bytes: the limit is %d", longest, maxName)
	}
	if total > maxNames {
		return "", fmt.Errorf("the names of arguments, blocks and map keys have %d bytes: the limit is %d", total, maxNames)
	}
	return "", nil
}

// measureNames returns the length of the longest name in v and adds the lengths of all names to total.
func measureNames(v any, total *int) (longest int) {
	switch v := v.(type) {
	case map[string]any:
		for name, e := range v {
			*total += len(name)
			longest = max(longest, len(name), measureNames(e, total))
		}
	case []any:
		for _, e := range v {
			longest = max(longest, measureNames(e, total))
		}
	case []map[string]any: // blocks, before they are sent
		for _, e := range v {
			longest = max(longest, measureNames(e, total))
		}
	}
	return longest
}
