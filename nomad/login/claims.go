package login

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/open-nomad/open-nomad/internal/untrusted"
)

// maxList limits the elements of a mapped list.
const maxList = 4096

// Claims are the mapped claims of a token: the values for selectors and templates.
type Claims struct {
	Values map[string]string
	Lists  map[string][]string
}

// mapClaims selects the claims in the mappings. A missing or null claim stays absent. A claim
// of another type than its mapping requires is an error.
func mapClaims(all map[string]any, values, lists map[string]string) (*Claims, error) {
	out := &Claims{Values: map[string]string{}, Lists: map[string][]string{}}
	for _, from := range slices.Sorted(maps.Keys(values)) {
		found, ok := lookup(all, from)
		if !ok {
			continue
		}
		text, ok := scalar(found)
		if !ok {
			return nil, fmt.Errorf("%w: the claim %q is not a string, number or boolean", ErrDenied, from)
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

// texts converts a list of scalars to strings. A single scalar is a list of one.
func texts(v any) ([]string, error) {
	if one, ok := scalar(v); ok {
		return []string{one}, nil
	}
	list, ok := v.([]any)
	switch {
	case !ok:
		return nil, fmt.Errorf("is not a list")
	case len(list) > maxList:
		return nil, fmt.Errorf("has more than %d elements", maxList)
	}
	out := make([]string, 0, len(list))
	for _, elem := range list {
		text, ok := scalar(elem)
		if !ok {
			return nil, fmt.Errorf("is not a list of strings, numbers or booleans")
		}
		out = append(out, text)
	}
	return out, nil
}

// scalar returns the text of a scalar. Numbers keep the notation of the token.
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

// lookup finds a claim by its top-level name, or by a JSON pointer (RFC 6901), which begins
// with a slash. It treats null as absent.
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

// element parses the index of a list element in a JSON pointer.
func element(part string, n int) (int, bool) {
	i, err := strconv.Atoi(part)
	return i, err == nil && i >= 0 && i < n && strconv.Itoa(i) == part
}

// maxShown is how many bytes of a value are shown.
const maxShown = 64

// LogValue shows the names and the beginnings of values. That is enough to see why a rule does
// not match, but too little to use a token that was mapped.
func (c *Claims) LogValue() slog.Value {
	var attrs []slog.Attr
	for _, name := range slices.Sorted(maps.Keys(c.Values)) {
		attrs = append(attrs, slog.String("value."+name, untrusted.Shorten(c.Values[name], maxShown)))
	}
	for _, name := range slices.Sorted(maps.Keys(c.Lists)) {
		var list []string
		for _, v := range c.Lists[name] {
			list = append(list, untrusted.Shorten(v, maxShown))
		}
		attrs = append(attrs, slog.Any("list."+name, list))
	}
	return slog.GroupValue(attrs...)
}
