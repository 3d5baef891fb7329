package login

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// maxList bounds the elements of a list that is mapped.
const maxList = 4096

// Claims are what a token said, under the names that the mappings of its method give:
// what selectors and templates see.
type Claims struct {
	Values map[string]string
	Lists  map[string][]string
}

// mapClaims picks what the mappings name. A claim that is not there, or null, stays
// absent; one that is of another kind than its mapping says is an error.
func mapClaims(all map[string]any, values, lists map[string]string) (*Claims, error) {
	out := &Claims{Values: map[string]string{}, Lists: map[string][]string{}}
	for _, from := range slices.Sorted(maps.Keys(values)) {
		found, ok := lookup(all, from)
		if !ok {
			continue
		}
		text, ok := scalar(found)
		if !ok {
			return nil, fmt.Errorf("%w: the claim %q is no string, number or boolean", ErrDenied, from)
		}
		out.Values[values[from]] = text
	}
	for _, from := range slices.Sorted(maps.Keys(lists)) {
		found, ok := lookup(all, from)
		if !ok {
			continue
		}
		list, err := texts(found)
		if err != nil {
			return nil, fmt.Errorf("%w: the claim %q %w", ErrDenied, from, err)
		}
		out.Lists[lists[from]] = list
	}
	return out, nil
}

// texts is a list of scalars; a single one is a list of one.
func texts(v any) ([]string, error) {
	if one, ok := scalar(v); ok {
		return []string{one}, nil
	}
	list, ok := v.([]any)
	switch {
	case !ok:
		return nil, fmt.Errorf("is no list")
	case len(list) > maxList:
		return nil, fmt.Errorf("has more than %d elements", maxList)
	}
	out := make([]string, 0, len(list))
	for _, elem := range list {
		text, ok := scalar(elem)
		if !ok {
			return nil, fmt.Errorf("is no list of strings, numbers or booleans")
		}
		out = append(out, text)
	}
	return out, nil
}

// scalar is the text of a value that is one. A number is as the token wrote it.
func scalar(v any) (string, bool) {
	switch v := v.(type) {
	case string:
		return v, true
	case json.Number:
		return v.String(), true
	case bool:
		return strconv.FormatBool(v), true
	}
	return "", false
}

// lookup finds a claim by its name at the top, or by a JSON pointer (RFC 6901), which
// begins with a slash. A null is not there.
func lookup(all map[string]any, name string) (any, bool) {
	if !strings.HasPrefix(name, "/") {
		v, ok := all[name]
		return v, ok && v != nil
	}
	var at any = all
	for _, part := range strings.Split(name[1:], "/") {
		part = strings.ReplaceAll(strings.ReplaceAll(part, "~1", "/"), "~0", "~")
		switch in := at.(type) {
		case map[string]any:
			var ok bool
			if at, ok = in[part]; !ok {
				return nil, false
			}
		case []any:
			i, ok := element(part, len(in))
			if !ok {
				return nil, false
			}
			at = in[i]
		default:
			return nil, false
		}
	}
	return at, at != nil
}

// element reads the index of an element, as JSON pointers write it.
func element(part string, n int) (int, bool) {
	i, err := strconv.Atoi(part)
	return i, err == nil && i >= 0 && i < n && strconv.Itoa(i) == part
}

// maxShown is how much of a value is shown.
const maxShown = 64

// LogValue shows names, and the beginnings of values: enough to see why a rule does not
// match, and of a token that was mapped not enough to use it.
func (c *Claims) LogValue() slog.Value {
	var attrs []slog.Attr
	for _, name := range slices.Sorted(maps.Keys(c.Values)) {
		attrs = append(attrs, slog.String("value."+name, shown(c.Values[name])))
	}
	for _, name := range slices.Sorted(maps.Keys(c.Lists)) {
		var list []string
		for _, v := range c.Lists[name] {
			list = append(list, shown(v))
		}
		attrs = append(attrs, slog.Any("list."+name, list))
	}
	return slog.GroupValue(attrs...)
}

func shown(v string) string {
	if len(v) > maxShown {
		return v[:maxShown] + "..."
	}
	return v
}
