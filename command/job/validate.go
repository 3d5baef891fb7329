package job

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/command/agent/httpapi"
	"github.com/open-nomad/open-nomad/command/term"
	"github.com/open-nomad/open-nomad/drivers"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/admission"
	"github.com/open-nomad/open-nomad/nomad/jobrules"
)

func validateCommand() term.Command {
	return term.Command{
		Name: "job validate", Alias: []string{"validate"}, Args: "<path>", MinArgs: 1, MaxArgs: 1,
		Short: "Check whether a jobspec is valid",
		Long: `Parses the jobspec and validates it locally, and on the servers if they can be reached. Registers nothing.
Exit codes: 0 when the job is valid, 1 when it is invalid or cannot be read. 255 means input variables
with a JSON jobspec, or invalid connection settings.`,
		Setup: func(f *term.Flags) term.Run {
			s := &source{}
			s.declare(f)
			s.declareVault(f)
			detail := f.Detail("List the parts of the job that are accepted without effect.")
			return func(ctx context.Context, e *term.Env) error { return validate(ctx, e, s, *detail) }
		},
	}
}

func validate(ctx context.Context, e *term.Env, s *source, detail term.Detail) error {
	job, _, err := s.read(ctx, e, e.Arg(0))
	if errors.Is(err, errJSONVars) {
		return &term.ExitError{Code: 255, Err: err}
	}
	if err != nil {
		return err
	}
	c, err := e.Client()
	if err != nil {
		return &term.ExitError{Code: 255, Err: err}
	}
	v := &verdict{}
	resp, _, err := c.Jobs().Validate(job, (&api.WriteOptions{}).WithContext(ctx))
	switch {
	case err == nil:
		v.ofServers(resp)
	case api.StatusCode(err) == http.StatusForbidden && privileged(e, job):
		return fmt.Errorf("Error validating job: %w", err)
	default:
		e.Println(e.Bold(fmt.Sprintf("Driver configuration not validated by servers: %v\n", err)))
	}
	if err := v.here(e, job, err == nil); err != nil {
		return fmt.Errorf("Error validating job: %w", err)
	}
	if detail {
		e.Println(e.Bold("Accepted without effect:"))
		e.Println(term.Table(v.inert) + "\n")
	}
	if len(v.warnings) > 0 {
		e.Println(e.Bold("Job Warnings:\n" + strings.Join(v.warnings, "\n") + "\n"))
	}
	if len(v.faults) > 0 {
		return fmt.Errorf("Job validation errors:\n  * %s", strings.Join(v.faults, "\n  * "))
	}
	e.Println(e.Bold("Job validation successful"))
	return nil
}

// verdict holds the errors and warnings of a job, without duplicates.
type verdict struct {
	faults, warnings []string
	inert            []string // rows of the parts that are accepted without effect
}

// ofServers adds the errors and warnings of the servers.
func (v *verdict) ofServers(resp *api.JobValidateResponse) {
	faults := resp.ValidationErrors
	if len(faults) == 0 && resp.Error != "" {
		faults = []string{resp.Error}
	}
	v.add(faults, nil)
	if resp.Warnings != "" {
		v.warnings = append(v.warnings, resp.Warnings)
	}
}

// privileged reports whether a task of the job is privileged, or needs privilege as far as is known here.
func privileged(e *term.Env, job *api.Job) bool {
	canonical, err := canonicalJob(e, job)
	return err == nil && (len(admission.Unprivileged(canonical, drivers.Table())) > 0 ||
		slices.ContainsFunc(admission.Places(canonical), func(p admission.Place) bool { return p.Task.Privileged }))
}

// canonicalJob returns the job as servers read it.
func canonicalJob(e *term.Env, job *api.Job) (*nomad.Job, error) {
	if ns := e.Namespace(); job.Namespace == nil {
		job.Namespace = &ns
	}
	return httpapi.CanonicalJob(job)
}

// here validates the job locally and adds the errors and warnings. If the servers have not validated it,
// a task that lacks privilege is a warning: nodes can run it nevertheless.
func (v *verdict) here(e *term.Env, job *api.Job, validated bool) error {
	canonical, err := canonicalJob(e, job)
	if err != nil {
		return err
	}
	v.add(admission.Check(canonical, drivers.Table()))
	v.inert = []string{"Place|Part|Reason"}
	for _, part := range jobrules.WithoutEffect(canonical) {
		v.inert = append(v.inert, term.Row(part.Place, part.Name, part.Reason))
	}
	if !validated {
		v.add(nil, admission.Unprivileged(canonical, drivers.Table()))
		v.add(nil, ofConsul(canonical))
	}
	return nil
}

// ofConsul returns the warning about services of Consul in a job that the servers have not validated.
func ofConsul(job *nomad.Job) []string {
	for _, tg := range job.TaskGroups {
		for _, s := range tg.AllServices() {
			if s.Provider == nomad.ServiceProviderConsul {
				return []string{fmt.Sprintf("job %q has services with provider \"consul\": the servers register them natively or refuse the job, "+
					"by server.services.consul (services-without-consul)", job.ID)}
			}
		}
	}
	return nil
}

func (v *verdict) add(faults, warnings []string) {
	for _, f := range faults {
		if !slices.Contains(v.faults, f) {
			v.faults = append(v.faults, f)
		}
	}
	known := strings.Join(v.warnings, "\n")
	for _, w := range warnings {
		if !strings.Contains(known, w) {
			v.warnings = append(v.warnings, w)
		}
	}
}
