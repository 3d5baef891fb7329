// Package job holds the commands about jobs: run, plan, validate, status, stop,
// inspect, allocs, history, eval, init. They read jobspecs and speak to an
// agent through package api; they keep nothing.
package job

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/command/term"
	"github.com/open-nomad/open-nomad/jobspec"
)

// Commands lists the commands of this package.
func Commands() []term.Command {
	return []term.Command{runCommand(), planCommand(), validateCommand(), statusCommand(), stopCommand(),
		inspectCommand(), allocsCommand(), historyCommand(), evalCommand(), initCommand(), learnCommand()}
}

// source holds the flags of the commands that read a jobspec.
type source struct {
	json     bool
	strict   bool
	vars     *[]string
	varFiles *[]string
	namespaces
}

func (s *source) declare(f *term.Flags) {
	f.BoolVar(&s.json, "json", false, "The jobspec is JSON, as 'job run -output' prints it.")
	f.BoolVar(&s.strict, "hcl2-strict", true, "Refuse variables that the jobspec does not declare.")
	s.vars = f.Strings("var", "A `name=value` pair for an input variable; may be repeated.")
	s.varFiles = f.Strings("var-file", "A `file` with values for input variables; may be repeated.")
}

// errJSONVars refuses values for a jobspec that cannot declare variables.
var errJSONVars = errors.New("Invalid job options: a jobspec in JSON has no input variables: -json excludes -var and -var-file")

// namespaces holds the flags about namespaces of other systems.
type namespaces struct{ consul, vault string }

func (n *namespaces) declareVault(f *term.Flags) {
	f.StringVar(&n.vault, "vault-namespace", "", "The `namespace` of Vault; servers without Vault refuse it.")
}

func (n *namespaces) declareConsul(f *term.Flags) {
	f.StringVar(&n.consul, "consul-namespace", "", "The `namespace` of Consul; servers without Consul refuse it.")
}

// set writes the namespaces that were given into a job.
func (n *namespaces) set(job *api.Job) {
	if n.consul != "" {
		job.ConsulNamespace = &n.consul
	}
	if n.vault != "" {
		job.VaultNamespace = &n.vault
	}
}

// read returns the job of the file at path: "-" is standard input, a URL is fetched.
func (s *source) read(ctx context.Context, e *term.Env, path string) (*api.Job, *api.JobSubmission, error) {
	if s.json && len(*s.vars)+len(*s.varFiles) > 0 {
		return nil, nil, errJSONVars
	}
	text, err := open(ctx, e, path)
	if err != nil {
		return nil, nil, fmt.Errorf("Error getting job struct: %w", err)
	}
	cfg := jobspec.Config{Filename: path, Source: text, Vars: *s.vars, VarFiles: *s.varFiles,
		Env: os.Environ(), Strict: s.strict, AllowFS: true, JSON: s.json}
	job, err := jobspec.Parse(cfg)
	if err != nil {
		return nil, nil, fmt.Errorf("Error getting job struct: %w", err)
	}
	s.set(job)
	return job, jobspec.Submission(cfg), nil
}

func open(ctx context.Context, e *term.Env, path string) ([]byte, error) {
	if strings.HasPrefix(path, "http://") || strings.HasPrefix(path, "https://") {
		return fetch(ctx, path)
	}
	return e.Input(path, maxSpec)
}

// maxSpec bounds a jobspec.
const maxSpec = 32 << 20

func fetch(ctx context.Context, url string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("fetch %s: the server answered %s", url, resp.Status)
	}
	return io.ReadAll(io.LimitReader(resp.Body, maxSpec))
}

// find returns the one job whose ID begins with prefix, an exact ID first, and a
// client to go on with.
func find(ctx context.Context, e *term.Env, prefix string) (*api.Client, *api.JobListStub, error) {
	c, err := e.Client()
	if err != nil {
		return nil, nil, err
	}
	q := (&api.QueryOptions{Prefix: prefix, Namespace: e.Namespace()}).WithContext(ctx)
	jobs, _, err := c.Jobs().List(q)
	if err != nil {
		return nil, nil, fmt.Errorf("Error querying job prefix %q: %w", prefix, err)
	}
	for _, j := range jobs {
		if j.ID == prefix {
			return c, j, nil
		}
	}
	switch len(jobs) {
	case 0:
		return nil, nil, fmt.Errorf("No job(s) with prefix or ID %q found", prefix)
	case 1:
		return c, jobs[0], nil
	default:
		return nil, nil, fmt.Errorf("Prefix %q matched multiple jobs\n\n%s", prefix, list(jobs, false))
	}
}

// list shows jobs as a table.
func list(jobs []*api.JobListStub, namespaces bool) string {
	rows := []string{"ID|Type|Priority|Status|Submit Date"}
	if namespaces {
		rows[0] = "ID|Namespace|Type|Priority|Status|Submit Date"
	}
	for _, j := range jobs {
		status := j.Status
		if j.Stop {
			status += " (stopped)"
		}
		cells := []any{j.ID, kind(j), j.Priority, status, term.UnixNano(j.SubmitTime)}
		if namespaces {
			cells = append(cells[:1:1], append([]any{j.Namespace}, cells[1:]...)...)
		}
		rows = append(rows, term.Row(cells...))
	}
	return term.Table(rows)
}

// kind is the type of a job, and whether it is a template for others.
func kind(j *api.JobListStub) string {
	out := j.Type
	if j.Periodic {
		out += "/periodic"
	}
	if j.ParameterizedJob {
		out += "/parameterized"
	}
	return out
}

func inNamespace(ctx context.Context, ns string) *api.QueryOptions {
	return (&api.QueryOptions{Namespace: ns}).WithContext(ctx)
}

func writeIn(ctx context.Context, ns string) *api.WriteOptions {
	return (&api.WriteOptions{Namespace: ns}).WithContext(ctx)
}
