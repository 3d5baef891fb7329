package taskhook

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/open-nomad/open-nomad/client/allocdir"
	"github.com/open-nomad/open-nomad/client/hook"
	"github.com/open-nomad/open-nomad/internal/hostuser"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/catalog"
	"github.com/open-nomad/open-nomad/nomad/vault"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// validateHook rejects tasks that this client cannot run. The servers reject them at
// registration; the hook covers jobs that an older server accepted.
type validateHook struct{ denied DeniedUsers }

func newValidateHook(c Config) hook.Hook {
	return &validateHook{c.Denied}
}

// DeniedUsers are users that tasks of some drivers must not have.
type DeniedUsers struct {
	Users   []string
	Drivers []string // instances
}

// check returns an error if a task must not have its user, by whatever name the job has it.
func (d DeniedUsers) check(t *nomad.Task) error {
	if t.User == "" || !slices.Contains(d.Drivers, t.Driver) {
		return nil
	}
	name := t.User
	if u, err := hostuser.Lookup(name); err == nil {
		name = u.Name
	}
	if slices.Contains(d.Users, t.User) || slices.Contains(d.Users, name) {
		return fmt.Errorf("running as user %q is disallowed", t.User)
	}
	return nil
}

func (*validateHook) Name() string { return "validate" }

func (h *validateHook) Prestart(_ context.Context, req *TaskPrestartRequest, _ *TaskPrestartResponse) error {
	if err := h.denied.check(req.Task); err != nil {
		return &Fault{Type: nomad.TaskHookFailed, Err: fmt.Errorf("%s: %w", h.Name(), err)}
	}
	if err := errors.Join(validate(req.Task), validServices(req)); err != nil {
		return &Fault{Type: nomad.TaskFailedValidation, Err: err}
	}
	return nil
}

// validServices checks the names of the task's services, which may have references.
func validServices(req *TaskPrestartRequest) error {
	var errs []error
	for _, s := range req.Task.Services {
		if name := req.Env.Expand(s.Name); !catalog.ServiceName(name) {
			errs = append(errs, fmt.Errorf("service %.64q is named %.64q: a name must have 1 to 63 letters, digits and dashes, and no dash at its ends",
				s.Name, name))
		}
	}
	return errors.Join(errs...)
}

// validate returns all errors at once.
func validate(t *nomad.Task) error {
	var errs []error
	switch t.Name {
	case "", ".", "..", allocdir.SharedName, allocdir.SecretsName, allocdir.PrivateName:
		errs = append(errs, fmt.Errorf("a task cannot be named %q", t.Name))
	}
	if strings.ContainsAny(t.Name, "/\x00") {
		errs = append(errs, fmt.Errorf("a task cannot be named %q: the name is also its directory's name", t.Name))
	}
	if t.KillSignal != "" {
		if _, err := drivers.ParseSignal(t.KillSignal); err != nil {
			errs = append(errs, fmt.Errorf("kill_signal: %w", err))
		}
	}
	for _, id := range t.Identities {
		if id.ChangeMode == nomad.WIChangeModeSignal {
			if _, err := drivers.ParseSignal(id.ChangeSignal); err != nil {
				errs = append(errs, fmt.Errorf("identity %q: change_signal: %w", id.Name, err))
			}
		}
	}
	if v := t.Vault; v != nil {
		if v.Cluster != "" && v.Cluster != vault.DefaultCluster {
			errs = append(errs, fmt.Errorf("vault: tasks of this client log in to cluster %q only, not to %.128q", vault.DefaultCluster, v.Cluster))
		}
		if _, err := drivers.ParseSignal(v.ChangeSignal); v.ChangeMode == vaultSignal && err != nil {
			errs = append(errs, fmt.Errorf("vault: change_signal: %w", err))
		}
	}
	return errors.Join(errs...)
}
