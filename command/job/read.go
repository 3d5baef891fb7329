package job

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/command/term"
)

func inspectCommand() term.Command {
	return term.Command{
		Name: "job inspect", Alias: []string{"inspect"}, Args: "<job>", MinArgs: 1, MaxArgs: 1,
		Short: "Show a job as JSON, or its source",
		Setup: func(f *term.Flags) term.Run {
			version := f.String("version", "", "The `version` of the job instead of the current one.")
			hcl := f.Bool("hcl", false, "Show the jobspec that was submitted.")
			withVars := f.Bool("with-vars", false, "Show the jobspec and the values of input variables that were submitted.")
			var formats term.Formats
			formats.Declare(f)
			return func(ctx context.Context, e *term.Env) error {
				c, stub, err := find(ctx, e, e.Arg(0))
				if err != nil {
					return err
				}
				job, err := jobVersion(ctx, c, stub, *version)
				switch {
				case err != nil:
					return err
				case *withVars, *hcl:
					s, err := submission(ctx, c, job)
					if err != nil {
						return err
					}
					e.Println(s.Source)
					if *withVars {
						e.Printf("%s", variables(s))
					}
					return nil
				case formats.Wanted():
					return formats.Print(e, job)
				}
				return e.JSON(map[string]*api.Job{"Job": job})
			}
		},
	}
}

// jobVersion returns a version of a job. The empty string means the current version.
func jobVersion(ctx context.Context, c *api.Client, stub *api.JobListStub, version string) (*api.Job, error) {
	if version == "" {
		job, _, err := c.Jobs().Info(stub.ID, inNamespace(ctx, stub.Namespace))
		if err != nil {
			return nil, fmt.Errorf("Error inspecting job: %w", err)
		}
		return job, nil
	}
	n, err := strconv.ParseUint(version, 10, 64)
	if err != nil {
		return nil, fmt.Errorf("Error parsing version %q: want a number", version)
	}
	versions, _, _, err := c.Jobs().Versions(stub.ID, false, inNamespace(ctx, stub.Namespace))
	if err != nil {
		return nil, fmt.Errorf("Error inspecting job: %w", err)
	}
	for _, j := range versions {
		if *j.Version == n {
			return j, nil
		}
	}
	return nil, fmt.Errorf("Version %d of job %q not found: 'nomad job history %s' lists the versions", n, stub.ID, stub.ID)
}

// submission returns the source of a version of a job.
func submission(ctx context.Context, c *api.Client, job *api.Job) (*api.JobSubmission, error) {
	s, _, err := c.Jobs().Submission(*job.ID, int(*job.Version), inNamespace(ctx, *job.Namespace))
	if err != nil {
		return nil, fmt.Errorf("Error reading the source of job %q version %d: %w", *job.ID, *job.Version, err)
	}
	return s, nil
}

// variables formats the input values from -var flags, the environment and variable files.
func variables(s *api.JobSubmission) string {
	var b strings.Builder
	if len(s.VariableFlags) > 0 {
		b.WriteString("Variable Flags:\n")
	}
	for _, name := range slices.Sorted(maps.Keys(s.VariableFlags)) {
		value := s.VariableFlags[name] // printed with escapes, as Nomad 2.0
		if plain, err := url.QueryUnescape(value); err == nil {
			value = plain
		}
		fmt.Fprintf(&b, "%s=%s\n", name, value)
	}
	if s.Variables != "" {
		fmt.Fprintf(&b, "Variables File:\n%s\n", strings.TrimRight(s.Variables, "\n"))
	}
	return b.String()
}

func allocsCommand() term.Command {
	return term.Command{
		Name: "job allocs", Args: "<job>", MinArgs: 1, MaxArgs: 1,
		Short: "List the allocations of a job",
		Setup: func(f *term.Flags) term.Run {
			all := f.Bool("all", false, "Also list allocations of an earlier job with the same ID.")
			detail := f.Detail("Print full IDs.")
			var formats term.Formats
			formats.Declare(f)
			return func(ctx context.Context, e *term.Env) error {
				c, stub, err := find(ctx, e, e.Arg(0))
				if err != nil {
					return err
				}
				allocs, _, err := c.Jobs().Allocations(stub.ID, *all, inNamespace(ctx, stub.Namespace))
				if err != nil {
					return fmt.Errorf("Error retrieving allocations: %w", err)
				}
				if formats.Wanted() {
					return formats.Print(e, allocs)
				}
				e.Println(Allocs(allocs, *detail))
				return nil
			}
		},
	}
}

func historyCommand() term.Command {
	return term.Command{
		Name: "job history", Args: "<job>", MinArgs: 1, MaxArgs: 1,
		Short: "Show the versions of a job",
		Setup: func(f *term.Flags) term.Run {
			diffs := f.Bool("p", false, "Show the diff to the previous version.")
			full := f.Bool("full", false, "Show the full job of each version.")
			version := f.String("version", "", "Show only this `version`.")
			diffTag := f.String("diff-tag", "", "Compare with the version that has this `tag` instead of the previous one.")
			diffVersion := f.String("diff-version", "", "Compare with this `version` instead of the previous one.")
			var formats term.Formats
			formats.Declare(f)
			return func(ctx context.Context, e *term.Env) error {
				if *diffTag != "" && *diffVersion != "" {
					return errors.New("-diff-tag and -diff-version cannot be used together")
				}
				h := history{diffs: *diffs || *diffVersion != "" || *diffTag != "", full: *full, version: *version, formats: formats}
				return h.run(ctx, e, *diffVersion, *diffTag)
			}
		},
	}
}

type history struct {
	diffs, full bool
	version     string
	formats     term.Formats
}

func (h *history) run(ctx context.Context, e *term.Env, against, tag string) error {
	c, stub, err := find(ctx, e, e.Arg(0))
	if err != nil {
		return err
	}
	opts := &api.VersionsOptions{Diffs: h.diffs, DiffTag: tag}
	if against != "" {
		n, err := strconv.ParseUint(against, 10, 64)
		if err != nil {
			return fmt.Errorf("Error parsing diff-version %q: want a number", against)
		}
		opts.DiffVersion = &n
	}
	versions, changes, _, err := c.Jobs().VersionsOpts(stub.ID, opts, inNamespace(ctx, stub.Namespace))
	if err != nil {
		return fmt.Errorf("Error retrieving job versions: %w", err)
	}
	if h.version == "" && h.formats.Wanted() {
		return h.formats.Print(e, versions)
	}
	for i, job := range versions {
		if h.version != "" && h.version != strconv.FormatUint(*job.Version, 10) {
			continue
		}
		var diff *api.JobDiff
		if i < len(changes) {
			diff = changes[i]
		}
		if err := h.print(e, job, diff); err != nil || h.version != "" {
			return err
		}
	}
	if h.version != "" {
		return fmt.Errorf("Version %q of job %q not found", h.version, stub.ID)
	}
	return nil
}

func (h *history) print(e *term.Env, job *api.Job, diff *api.JobDiff) error {
	if h.formats.Wanted() {
		return h.formats.Print(e, job)
	}
	rows := []string{
		term.Row("Version", *job.Version),
		term.Row("Stable", *job.Stable),
		term.Row("Submit Date", term.UnixNano(*job.SubmitTime)),
	}
	if tag := job.VersionTag; tag != nil {
		rows = append(rows, term.Row("Tag Name", tag.Name))
		if tag.Description != "" {
			rows = append(rows, term.Row("Tag Description", tag.Description))
		}
	}
	e.Println(term.Pairs(rows))
	if h.diffs && diff != nil {
		e.Println("Diff        =\n" + strings.TrimRight(Diff(diff, term.Short), "\n"))
	}
	if h.full {
		return e.JSON(map[string]*api.Job{"Job": job})
	}
	e.Println()
	return nil
}
