package audit

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Filter drops the events that it matches. Of endpoints and operations each may hold
// "*" for any text; "*" is any stage. An empty list matches everything.
type Filter struct {
	Type       string
	Endpoints  []string
	Stages     []string
	Operations []string
}

// Check refuses a filter that could not match, or that nobody can have meant.
func (f Filter) Check() error {
	var errs []error
	if !slices.Contains(types, Type(f.Type)) {
		errs = append(errs, fmt.Errorf("type: %s is expected, not %q", oneOf(types), f.Type))
	}
	for _, s := range f.Stages {
		if s != "*" && !slices.Contains(stages, Stage(s)) {
			errs = append(errs, fmt.Errorf("stages: %s or * is expected, not %q", oneOf(stages), s))
		}
	}
	if len(f.Endpoints)+len(f.Stages)+len(f.Operations) == 0 {
		errs = append(errs, fmt.Errorf("it names no endpoints, stages or operations, and would drop every %s: say endpoints = [\"*\"] if that is meant", f.Type))
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

// drops says whether the filter matches an event.
func (f *Filter) drops(e *Event) bool {
	return string(e.Type) == f.Type &&
		anyGlob(f.Stages, string(e.Stage)) && anyGlob(f.Operations, e.Request.Operation) && anyGlob(f.Endpoints, e.Request.Endpoint)
}

func anyGlob(globs []string, text string) bool {
	return len(globs) == 0 || slices.ContainsFunc(globs, func(g string) bool { return glob(g, text) })
}

// glob says whether text is what the pattern says, in which "*" is any text. It is
// linear in both: after each star the first place that fits is taken.
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
