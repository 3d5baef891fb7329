// Package job implements the commands for jobs, such as run, plan, status and stop. Commands returns all
// of them. They read job files and call an agent through package api. They keep no state. Other
// packages have "job wait" (command/jobwait) and "job action" (command/alloc).
package job

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/command/term"
	"github.com/open-nomad/open-nomad/jobspec"
)

// Commands lists the commands of this package.
func Commands() []term.Command {
	return []term.Command{runCommand(), planCommand(), validateCommand(), explainCommand(), statusCommand(), stopCommand(),
		inspectCommand(), allocsCommand(), historyCommand(), evalCommand(), initCommand(), learnCommand(),
		periodicForceCommand(), dispatchCommand(), scaleCommand(), scalingEventsCommand(),
		deploymentsCommand(), promoteCommand(), revertCommand(), startCommand(), restartCommand(), tagApplyCommand(), tagUnsetCommand()}
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
	f.BoolVar(&s.json, "json", false, "Parse the jobspec as JSON, in the format of 'job run -output'.")
	s.declareInput(f)
}

// declareInput declares the flags for input variables.
func (s *source) declareInput(f *term.Flags) {
	f.BoolVar(&s.strict, "hcl2-strict", true, "Reject variables that the jobspec does not declare.")
	s.vars = f.Strings("var", "A `name=value` pair for an input variable; may be repeated.")
	s.varFiles = f.Strings("var-file", "A `file` with values for input variables; may be repeated.")
}

// errJSONVars rejects variable values with a JSON jobspec, which cannot declare variables.
var errJSONVars = errors.New("Invalid job options: a JSON jobspec has no input variables: remove -json, or remove -var and -var-file")

// namespaces holds the flags for the namespaces of Consul and Vault.
type namespaces struct{ consul, vault string }

func (n *namespaces) declareVault(f *term.Flags) {
	f.StringVar(&n.vault, "vault-namespace", "", "The Vault `namespace`. The servers refuse the job: namespaces need Nomad Enterprise.")
}

func (n *namespaces) declareConsul(f *term.Flags) {
	f.StringVar(&n.consul, "consul-namespace", "", "The Consul `namespace` of groups with a consul block that has none.")
}

// set copies the namespaces of the flags to a job.
func (n *namespaces) set(job *api.Job) {
	if n.consul != "" {
		job.ConsulNamespace = &n.consul
	}
	if n.vault != "" {
		job.VaultNamespace = &n.vault
	}
}

// read parses the job at path, which is a file, a URL, or "-" for standard input.
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

// maxSpec is the maximum size of a jobspec in bytes.
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
		return nil, fmt.Errorf("fetch %s: unexpected status %s", url, resp.Status)
	}
	return io.ReadAll(io.LimitReader(resp.Body, maxSpec))
}

// find returns the job whose ID is prefix, or the only job whose ID begins with it.
// It also returns the client for further requests.
func find(ctx context.Context, e *term.Env, prefix string) (*api.Client, *api.JobListStub, error) {
	return findKind(ctx, e, prefix, anyKind)
}

// jobKind is a set of jobs that a command takes.
type jobKind struct {
	text string // "" or a word before "job(s)" in an error
	has  func(*api.JobListStub) bool
}

var (
	anyKind           = jobKind{"", func(*api.JobListStub) bool { return true }}
	periodicKind      = jobKind{"periodic ", func(j *api.JobListStub) bool { return j.Periodic }}
	parameterizedKind = jobKind{"parameterized ", func(j *api.JobListStub) bool { return j.ParameterizedJob }}
)

// findKind is find for the jobs of a kind. Their children have the same prefix.
func findKind(ctx context.Context, e *term.Env, prefix string, of jobKind) (*api.Client, *api.JobListStub, error) {
	c, err := e.Client()
	if err != nil {
		return nil, nil, err
	}
	q := (&api.QueryOptions{Prefix: beginning(prefix), Namespace: e.Namespace()}).WithContext(ctx)
	jobs, _, err := c.Jobs().List(q)
	if err != nil {
		return nil, nil, fmt.Errorf("Error querying job prefix %q: %w", prefix, err)
	}
	jobs = slices.DeleteFunc(jobs, func(j *api.JobListStub) bool { return !of.has(j) || !strings.HasPrefix(j.ID, prefix) })
	for _, j := range jobs {
		if j.ID == prefix {
			return c, j, nil
		}
	}
	switch len(jobs) {
	case 0:
		return nil, nil, fmt.Errorf("No %sjob(s) with prefix or ID %q found", of.text, prefix)
	case 1:
		return c, jobs[0], nil
	default:
		return nil, nil, fmt.Errorf("Prefix %q matched multiple jobs\n\n%s", prefix, list(jobs, false))
	}
}

// maxPrefix is the maximum length of a prefix in a URL.
const maxPrefix = 1 << 10

// beginning returns the part of a prefix that fits in a URL.
func beginning(prefix string) string {
	if len(prefix) <= maxPrefix {
		return prefix
	}
	return strings.ToValidUTF8(prefix[:maxPrefix], "")
}

// list formats jobs as a table.
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

// kind returns the type of a job, with a suffix for periodic and parameterized jobs.
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
