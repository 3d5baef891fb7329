package drivers

import "strings"

// Reference begins a reference in a value of a job. Only the node knows the rest of the value.
const Reference = "${"

// Mask removes strings with references from a value of a config block, in lists and blocks, too. It
// returns false if nothing remains. With whole, a block in a list is removed if something in it was:
// that is for blocks whose checks are about the combination of their values.
func Mask(v any, whole bool) (any, bool) {
	switch v := v.(type) {
	case string:
		return v, !strings.Contains(v, Reference)
	case []any:
		return maskList(v, whole), true
	case []string:
		return maskList(v, whole), true
	case []map[string]any:
		return maskList(v, whole), true
	case map[string]string:
		return maskMap(v, whole), true
	case map[string]any:
		return maskMap(v, whole), true
	}
	return v, true
}

func maskList[T any](list []T, whole bool) []any {
	out := []any{}
	for _, e := range list {
		if m, ok := any(e).(map[string]any); whole && ok && len(maskMap(m, whole)) < len(m) {
			continue
		}
		if m, ok := Mask(e, whole); ok {
			out = append(out, m)
		}
	}
	return out
}

func maskMap[T any](block map[string]T, whole bool) map[string]any {
	out := make(map[string]any, len(block))
	for k, e := range block {
		if m, ok := Mask(e, whole); ok && !strings.Contains(k, Reference) {
			out[k] = m
		}
	}
	return out
}
