package setup

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/open-nomad/open-nomad/command/term"
)

// timeout limits a request to the other system.
const timeout = 10 * time.Second

// object is one object in the other system.
type object struct {
	name string // in a sentence, such as "policy \"policy-nomad-tasks\""
	show string // what it contains, for the question
	// find returns nil if the object does not exist.
	find func(context.Context) (*existing, error)
	// create creates the object, or completes an incomplete one.
	create func(context.Context) error
	remove func(ctx context.Context, id string) error
}

// existing is an object that exists.
type existing struct {
	id         string
	incomplete bool     // an earlier run failed in the middle
	differs    []string // sentences: what it has, and a new one would not have
	kept       string   // the reason why -destroy keeps it, "" if it is deleted
}

// missing reports whether create has to do something.
func (e *existing) missing() bool { return e == nil || e.incomplete }

// session is one run of a command.
type session struct {
	env    *term.Env
	yes    bool
	system string // its name in a sentence
	// failed adds the remedy to the error of a request, without the text of an answer.
	failed func(what string, err error) error
}

// errDeclined means that the user answered no.
var errDeclined = errors.New("declined")

// ask asks a question unless -y is set. The answer no is errDeclined.
func (s *session) ask(question string) error {
	if s.yes || s.env.Confirm(question+" [y/N]") {
		return nil
	}
	return errDeclined
}

// declined ends the command without a failure if the user answered no.
func (s *session) declined(err error) error {
	if errors.Is(err, errDeclined) {
		s.env.Println("Nothing changed.")
		return term.Exit(0)
	}
	return err
}

// found returns what exists of the objects, in the same order.
func (s *session) found(ctx context.Context, all []object) ([]*existing, error) {
	var out []*existing
	for _, o := range all {
		limited, cancel := context.WithTimeout(ctx, timeout)
		e, err := o.find(limited)
		cancel()
		if err != nil {
			return nil, s.failed("read "+o.name, err)
		}
		out = append(out, e)
	}
	return out, nil
}

// create creates the objects that do not exist, and returns the others.
func (s *session) create(ctx context.Context, all []object) ([]*existing, error) {
	states, err := s.found(ctx, all)
	if err != nil {
		return nil, err
	}
	if slices.ContainsFunc(states, (*existing).missing) && !s.yes {
		s.env.Printf("These objects will be created in %s:\n", s.system)
		for i, o := range all {
			if states[i].missing() {
				s.env.Printf("  * %s: %s\n", o.name, o.show)
			}
		}
		if err := s.declined(s.ask("Create them?")); err != nil {
			return nil, err
		}
	}
	for i, o := range all {
		if !states[i].missing() {
			s.env.Printf("[✔] %s already exists.\n", title(o.name))
			continue
		}
		limited, cancel := context.WithTimeout(ctx, timeout)
		err := o.create(limited)
		cancel()
		if err != nil {
			s.compare(states) // a difference could be the reason
			return nil, s.failed("create "+o.name, err)
		}
		s.env.Printf("[✔] Created %s.\n", o.name)
	}
	return states, nil
}

// compare warns about objects that existed and differ from new ones.
func (s *session) compare(states []*existing) {
	for _, e := range states {
		if e == nil {
			continue
		}
		for _, d := range e.differs {
			s.env.Warnf("Warning: %s", d)
		}
	}
}

// delete deletes the objects that exist, in reverse order, without those that are kept.
func (s *session) delete(ctx context.Context, all []object) error {
	states, err := s.found(ctx, all)
	if err != nil {
		return err
	}
	slices.Reverse(all)
	slices.Reverse(states)
	s.keep(all, states)
	if !slices.ContainsFunc(states, (*existing).deletable) {
		s.env.Println("Nothing to delete.")
		return nil
	}
	if !s.yes {
		s.env.Printf("These objects will be deleted in %s, and the tokens of all workloads end:\n", s.system)
		for i, o := range all {
			if states[i].deletable() {
				s.env.Printf("  * %s\n", o.name)
			}
		}
		if err := s.declined(s.ask("Delete them?")); err != nil {
			return err
		}
	}
	for i, o := range all {
		if !states[i].deletable() {
			continue
		}
		limited, cancel := context.WithTimeout(ctx, timeout)
		err := o.remove(limited, states[i].id)
		cancel()
		if err != nil {
			return s.failed("delete "+o.name, err)
		}
		s.env.Printf("[✔] Deleted %s.\n", o.name)
	}
	return nil
}

func (e *existing) deletable() bool { return e != nil && e.kept == "" }

// keep prints the objects that are not deleted.
func (s *session) keep(all []object, states []*existing) {
	for i, e := range states {
		if e != nil && e.kept != "" {
			s.env.Warnf("Kept %s: %s", all[i].name, e.kept)
		}
	}
}

// title returns a sentence that begins with a capital letter.
func title(text string) string { return strings.ToUpper(text[:1]) + text[1:] }
