package audit

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Filter drops the events that it matches. In endpoints and operations, "*" matches any text;
// as a stage, "*" matches all. An empty list matches everything.
type Filter struct {
	Type       string
	Endpoints  []string
	Stages     []string
	Operations []string
}

// Check returns an error for a filter that cannot match anything or is likely a mistake.
func (f Filter) Check() error {
	var errs []error
	if !slices.Contains(types, Type(f.Type)) {
		errs = append(errs, fmt.Errorf("type: must be %s, not %q", oneOf(types), f.Type))
	}
	for _, s := range f.Stages {
		if s != "*" && !slices.Contains(stages, Stage(s)) {
			errs = append(errs, fmt.Errorf("stages: must be %s or *, not %q", oneOf(stages), s))
		}
	}
	if len(f.Endpoints)+len(f.Stages)+len(f.Operations) == 0 {
		errs = append(errs, fmt.Errorf("without endpoints, stages or operations the filter would drop every %s: set endpoints = [\"*\"] to do so",
			f.Type))
	}
	if slices.Contains(f.Endpoints, "") || slices.Contains(f.Operations, "") {
		errs = append(errs, errors.New("an endpoint or operation is empty"))
	}
	return errors.Join(errs...)
}

func oneOf[T ~string](all []T) string {
	var names []string
	for _, one := range all {
		names = append(names, string(one))
	}
	return strings.Join(names, " or ")
}

// drops reports whether the filter matches an event.
func (f *Filter) drops(e *Event) bool {
	return string(e.Type) == f.Type &&
		anyGlob(f.Stages, string(e.Stage)) && anyGlob(f.Operations, e.Request.Operation) && anyGlob(f.Endpoints, e.Request.Endpoint)
}

func anyGlob(globs []string, text string) bool {
	return len(globs) == 0 || slices.ContainsFunc(globs, func(g string) bool { return glob(g, text) })
}

// glob reports whether text matches the pattern, in which "*" matches any text. It takes linear
// time: after each star it uses the first match.
func glob(pattern, text string) bool {
	parts := strings.Split(pattern, "*")
	if len(parts) == 1 {
		return pattern == text
	}
	first, last := parts[0], parts[len(parts)-1]
	if !strings.HasPrefix(text, first) || len(text) < len(first)+len(last) || !strings.HasSuffix(text, last) {
		return false
	}
	text = text[len(first) : len(text)-len(last)]
	for _, part := range parts[1 : len(parts)-1] {
		at := strings.Index(text, part)
		if at < 0 {
			return false
		}
		text = text[at+len(part):]
	}
	return true
}
