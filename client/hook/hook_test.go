package hook_test

import (
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/client/hook"
)

type plain string

func (p plain) Name() string { return string(p) }

// opener is the interface of a moment.
type opener interface {
	hook.Hook
	Open() error
}

type listener struct {
	plain
	err error
}

func (d listener) Open() error { return d.err }

var errStuck = errors.New("stuck")

func list(log *strings.Builder) hook.List {
	return hook.List{Kind: "task_hook", Log: slog.New(slog.NewTextHandler(log, nil)), Hooks: []hook.Hook{
		listener{plain: "first"}, plain("wall"), listener{"second", errStuck}, listener{plain: "third"},
	}}
}

func TestEachStopsAtAnError(t *testing.T) {
	var seen []string
	err := hook.Each(list(new(strings.Builder)), "open", func(o opener) error {
		seen = append(seen, o.Name())
		return o.Open()
	})
	if want := []string{"first", "second"}; !slices.Equal(seen, want) {
		t.Errorf("called %v, want %v", seen, want)
	}
	if !errors.Is(err, errStuck) || !strings.Contains(err.Error(), "hook second") {
		t.Errorf("Each() = %v, want the error with the name of the second hook", err)
	}
}

func TestAllContinuesAfterAnError(t *testing.T) {
	var seen []string
	log := new(strings.Builder)
	hook.All(list(log), "open", func(o opener) error {
		seen = append(seen, o.Name())
		return o.Open()
	})
	if want := []string{"first", "second", "third"}; !slices.Equal(seen, want) {
		t.Errorf("called %v, want %v", seen, want)
	}
	if !strings.Contains(log.String(), "hook=second") || strings.Contains(log.String(), "hook=third") {
		t.Errorf("log = %q, want a line on the second hook only", log)
	}
}
