package services

import (
	"strings"
	"unicode"

	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/catalog"
)

// The limits of the fields that registrations of this project have.
const (
	maxWeight       = 65535
	maxChecks       = catalog.MaxChecks
	maxCheckText    = 256 // the ID, the name and the type of a check
	maxRegistration = catalog.MaxSize
)

// checkFields returns an error for fields that are not plain text, or too large. A registration without them is valid.
func checkFields(r *catalog.Registration) error {
	for _, f := range []func(*catalog.Registration) error{checkSize, checkText, checkHealth} {
		if err := f(r); err != nil {
			return err
		}
	}
	if w := r.Weights; w != nil && (w.Passing < 0 || w.Passing > maxWeight || w.Warning < 0 || w.Warning > maxWeight) {
		return apierror.Errorf(400, "invalid weights %d and %d of service %q: want 0 to %d", w.Passing, w.Warning, r.ServiceName, maxWeight)
	}
	return nil
}

// checkSize limits all texts of a registration together.
func checkSize(r *catalog.Registration) error {
	size := len(r.ID) + len(r.Address) + r.DeclaredSize()
	for _, c := range r.Checks {
		if c != nil {
			size += len(c.ID) + len(c.Name) + len(c.Type) + len(c.Output)
		}
	}
	if size > maxRegistration {
		return apierror.Errorf(400, "the registration of service %q has %d bytes: the limit is %d", r.ServiceName, size, maxRegistration)
	}
	return nil
}

func checkText(r *catalog.Registration) error {
	if err := r.CheckText(); err != nil {
		return apierror.Errorf(400, "service %q: %v", r.ServiceName, err)
	}
	return nil
}

// checkHealth checks the status of a registration and its checks.
func checkHealth(r *catalog.Registration) error {
	switch {
	case r.Status != "" && !isStatus(r.Status):
		return apierror.Errorf(400, "invalid status %.20q of service %q: want passing, warning or critical", r.Status, r.ServiceName)
	case len(r.Checks) > maxChecks:
		return apierror.Errorf(400, "service %q has %d checks: the limit is %d", r.ServiceName, len(r.Checks), maxChecks)
	}
	for _, c := range r.Checks {
		switch {
		case c == nil:
			return apierror.Errorf(400, "service %q has an empty check", r.ServiceName)
		case !isStatus(c.Status):
			return apierror.Errorf(400, "invalid status %.20q of a check of service %q: want passing, warning or critical", c.Status, r.ServiceName)
		case len(c.Output) > catalog.MaxOutput:
			return apierror.Errorf(400, "the output of a check of service %q has %d bytes: the limit is %d", r.ServiceName, len(c.Output),
				catalog.MaxOutput)
		}
		for _, text := range []string{c.ID, c.Name, c.Type} {
			if !catalog.Line(text) || len(text) > maxCheckText {
				return apierror.Errorf(400, "invalid ID, name or type of a check of service %q: want one line of at most %d bytes",
					r.ServiceName, maxCheckText) // the client logs it, and the text may be a secret
			}
		}
	}
	return nil
}

// canonical returns a copy of a valid registration whose outputs of checks are one line of text. The client takes them
// from programs and servers that it does not know.
func canonical(r *catalog.Registration) *catalog.Registration {
	out := r.Copy()
	for _, c := range out.Checks {
		c.Output = strings.Map(func(c rune) rune {
			if unicode.IsControl(c) || c == unicode.ReplacementChar {
				return ' '
			}
			return c
		}, c.Output)
	}
	return out
}

func isStatus(s catalog.Status) bool {
	return s == catalog.Passing || s == catalog.Warning || s == catalog.Critical
}
